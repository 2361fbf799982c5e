package prose

import (
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"strings"
	"unicode"
)

// tongue composes text in another language: words of a list of our own in sentences of natural length. It is
// no language that anybody would write, but its tokens are what that language's tokens are: so many bytes and
// characters each, rare and common ones.
type tongue struct {
	v           *vocabulary
	first       []unit // how a text may begin, with a space in front
	opened      []unit // the first word of a sentence behind a full stop
	words       []unit
	stop, comma unit
	exact       map[int][]unit // words by their tokens
	most        int            // of a word
}

// Languages lists the languages of [Prose.In], "en" among them.
func Languages() []string {
	names := append(slices.Collect(maps.Keys(languages)), "en")
	slices.Sort(names)
	return names
}

// In gives the voice of a language, by its code of two letters.
func (p *Prose) In(language string) (Voice, error) {
	if language == "en" {
		return p.English(), nil
	}
	if p.tongues[language] == nil {
		return Voice{}, fmt.Errorf("language %q is not known: there are %s", language, strings.Join(Languages(), ", "))
	}
	t, err := p.tongues[language]()
	if err != nil {
		return Voice{}, err
	}
	compose := func(w *writer, opening []unit) { t.compose(w, opening, p.english) }
	return Voice{p, compose, func(salt, index uint64) []unit { return opening(t.first, t.words, t.words, salt, index) }}, nil
}

// clauses is the number of made-up clauses of a language that is written without spaces.
const clauses = 3000

func newTongue(tok Tokenizer, v *vocabulary, name string) (*tongue, error) {
	l := languages[name]
	t := &tongue{v: v, exact: map[int][]unit{}}
	list := strings.Fields(l.words)
	space := " "
	if l.joined {
		// Words that touch are one piece to a tokenizer. So whole clauses are what is counted: each begins
		// with its comma.
		space = ""
		r := rand.New(rand.NewPCG(uint64(len(name)), uint64(name[0])))
		made := make([]string, clauses)
		for i := range made {
			for range 2 + r.IntN(4) {
				made[i] += list[r.IntN(len(list))]
			}
		}
		list = made
	}
	word := newBehind(tok, v.start[0].text[1:]+space+list[0])
	if !l.joined {
		t.stop, t.comma = word.unit(l.stop), word.unit(l.comma)
	}
	stopped := newBehind(tok, word.text+l.stop)
	if l.joined {
		stopped = word
	}
	for _, w := range list {
		upper := w
		if !l.joined {
			upper = string(unicode.ToUpper([]rune(w)[0])) + string([]rune(w)[1:])
		}
		u, o := word.unit(l.between()+w), stopped.unit(l.after()+upper)
		t.words, t.opened = append(t.words, u), append(t.opened, o)
		t.exact[u.tokens] = append(t.exact[u.tokens], u)
		t.most = max(t.most, u.tokens)
		if begin := v.word(tok, upper); !l.joined && begin.tokens == tok.Count(upper) {
			t.first = append(t.first, begin)
		}
	}
	// Where a text cannot begin with a word of the language, because the space in front of it would count, it
	// begins by naming somebody.
	if len(t.first) < 8 {
		t.first = nil
		for _, u := range v.upper[lName] {
			if u.tokens == tok.Count(u.text[1:]) {
				t.first = append(t.first, u)
			}
		}
	}
	if len(t.first) < 8 {
		return nil, fmt.Errorf("prose: this tokenizer has no words of %s to begin a text with", name)
	}
	return t, nil
}

// word counts a word behind another.
func (v *vocabulary) word(tok Tokenizer, w string) unit { return newBehind(tok, "the").unit(" " + w) }

func (t *tongue) compose(w *writer, opening []unit, english composer) {
	if w.left < 8 {
		english(w, opening)
		return
	}
	if opening == nil {
		opening = []unit{w.unit(t.first)}
	}
	for _, u := range opening {
		if u.tokens < w.left {
			w.put(u)
		}
	}
	inSentence := 3 + w.index(10)
	for w.left > 2*t.most+t.stop.tokens+t.comma.tokens {
		switch inSentence--; {
		case inSentence == 0:
			w.put(t.stop)
			w.put(w.unit(t.opened))
			inSentence = 4 + w.index(12)
		case inSentence > 2 && w.index(9) == 0:
			w.put(t.comma)
			w.put(w.unit(t.words))
		default:
			w.put(w.unit(t.words))
		}
	}
	// Towards the end, a word that leaves what other words can fill, and at last one that fits.
	for w.left > 0 {
		fits := t.exact[w.left]
		for tries := 0; fits == nil && tries < 16; tries++ {
			if u := w.unit(t.words); u.tokens < w.left && (t.exact[w.left-u.tokens] != nil || w.left-u.tokens > t.most) {
				fits = []unit{u}
			}
		}
		if fits == nil {
			fits = t.v.single
		}
		w.put(w.unit(fits))
	}
}

// language is a list of words and how they are put together.
type language struct {
	words       string
	stop, comma string
	joined      bool // written without spaces
}

func (l language) between() string {
	if l.joined {
		return l.comma
	}
	return " "
}

func (l language) after() string {
	if l.joined {
		return l.stop
	}
	return " "
}

var languages = map[string]language{
	"zh": {joined: true, stop: "。", comma: "，", words: `
我们 今天 可以 一个 问题 时间 中国 城市 学生 老师 公司 工作 因为 所以 如果 但是 已经 现在 需要 知道 觉得 喜欢 希望 开始 发展 经济 技术
数据 系统 模型 服务 用户 信息 研究 方法 结果 分析 情况 影响 重要 不同 新的 大量 提高 使用 进行 通过 根据 关于 之间 之后 以前 每天 晚上
早上 朋友 家里 孩子 父母 医生 医院 火车 飞机 电影 音乐 书籍 文章 语言 文化 历史 社会 政府 国家 世界 环境 天气 春天 夏天 颜色 红色
蓝色 山上 河边 海洋 动物 植物 食物 米饭 水果 咖啡 办公室 会议 计划 项目 报告 市场 价格 产品 质量 设计 程序 网络 手机 电脑 图片
解决 讨论 介绍 说明 比较 选择 改变 增加 减少 保护 参加 准备 完成 帮助 学习 生活 健康 安全 自由 快乐 简单 复杂 可能 应该 非常 特别`},
	"ja": {joined: true, stop: "。", comma: "、", words: `
私たちは 今日は 明日の 時間が 問題を 学生と 先生に 会社で 仕事の 結果は 新しい 大きな 小さな 古い町の 東京から 京都まで 電車で 飛行機が
使って 作られた 始まり 終わった 考えると 思います 必要です 可能な 方法を データの システムが モデルは サービスを ユーザーに 情報と 研究した
説明する 比べて 選んだ 変わる 増えた 減らす 守るため 準備を 完成した 手伝って 学んだ 生活が 健康な 安全に 自由な 簡単に 複雑な とても
特に しかし だから もし すでに 友達と 家族の 子供たちが 医者へ 病院の 映画を 音楽が 本の中で 言葉は 文化と 歴史を 社会の 政府が 世界中で
環境に 天気も 春には 夏まで 赤い 青い 山から 川沿い 海へ 動物と 植物の 食べ物 コーヒーを 会議で 計画が 報告を 市場の 価格は 製品に`},
	"ko": {stop: ".", comma: ",", words: `
우리는 오늘 내일 시간이 문제를 학생은 선생님 회사에서 일을 결과가 새로운 큰 작은 오래된 서울에서 부산까지 기차로 비행기 사용하는 만든
시작했다 끝났다 생각한다 필요한 가능한 방법으로 데이터 시스템은 모델이 서비스를 사용자 정보와 연구를 설명하고 비교하면 선택한 바뀌는
늘어난 줄이는 지키기 준비를 완성된 도와준 배운 생활의 건강한 안전하게 자유로운 간단히 복잡한 매우 특히 하지만 그래서 만약 이미 친구와
가족의 아이들이 의사는 병원에 영화를 음악이 책에서 언어는 문화와 역사를 사회의 정부가 세계에서 환경을 날씨도 봄에는 여름까지 빨간 파란
산에서 강을 바다로 동물과 식물의 음식을 커피를 회의에서 계획이 보고서를 시장의 가격은 제품을 품질이 설계를 네트워크`},
	"es": {stop: ".", comma: ",", words: `
el la los una para con desde hasta sobre entre cuando donde porque aunque también siempre nunca ahora después ciudad pueblo casa calle escuela
maestro alumno trabajo empresa tiempo problema respuesta pregunta manera ejemplo sistema modelo servicio usuario información investigación
resultado análisis cambio desarrollo economía gobierno país mundo historia cultura lengua música película libro artículo palabra familia amigo
niño médico hospital tren avión camino montaña río océano animal planta comida fruta café reunión proyecto informe mercado precio producto
calidad diseño programa red teléfono ordenador imagen explica muestra necesita quiere puede debe tiene encuentra ofrece permite aumenta reduce
protege prepara termina ayuda aprende vive grande pequeño nuevo viejo rojo azul importante diferente posible difícil rápido`},
	"fr": {stop: ".", comma: ",", words: `
le la les une pour avec depuis jusque sur entre quand où parce bien aussi toujours jamais maintenant après ville village maison rue école
professeur élève travail entreprise temps problème réponse question manière exemple système modèle service utilisateur information recherche
résultat analyse changement développement économie gouvernement pays monde histoire culture langue musique film livre article parole famille
ami enfant médecin hôpital train avion chemin montagne rivière océan animal plante repas fruit café réunion projet rapport marché prix produit
qualité dessin programme réseau téléphone ordinateur image explique montre demande veut peut doit trouve offre permet augmente réduit protège
prépare termine aide apprend vit grand petit nouveau vieux rouge bleu important différent possible difficile rapide`},
	"de": {stop: ".", comma: ",", words: `
der die das eine für mit seit bis über zwischen wenn wo weil obwohl auch immer niemals jetzt nachher Stadt Dorf Haus Straße Schule Lehrer
Schüler Arbeit Unternehmen Zeit Problem Antwort Frage Weise Beispiel System Modell Dienst Benutzer Auskunft Forschung Ergebnis Auswertung
Veränderung Entwicklung Wirtschaft Regierung Land Welt Geschichte Kultur Sprache Musik Film Buch Artikel Wort Familie Freund Kind Arzt
Krankenhaus Eisenbahn Flugzeug Weg Gebirge Fluss Ozean Tier Pflanze Essen Obst Kaffee Besprechung Vorhaben Bericht Markt Preis Erzeugnis
Qualität Entwurf Programm Netzwerk Telefon Rechner Bild erklärt zeigt braucht möchte kann muss findet bietet erlaubt erhöht verringert schützt
vorbereitet beendet hilft lernt lebt groß klein neu alt rot blau wichtig verschieden möglich schwierig schnell`},
	"pt": {stop: ".", comma: ",", words: `
o a os uma para com desde até sobre entre quando onde porque embora também sempre nunca agora depois cidade aldeia casa rua escola professor
aluno trabalho empresa tempo problema resposta pergunta maneira exemplo sistema modelo serviço usuário informação pesquisa resultado análise
mudança desenvolvimento economia governo país mundo história cultura língua música filme livro artigo palavra família amigo criança médico
hospital trem avião caminho montanha rio oceano animal planta comida fruta café reunião projeto relatório mercado preço produto qualidade
desenho programa rede telefone computador imagem explica mostra precisa quer pode deve tem encontra oferece permite aumenta reduz protege
prepara termina ajuda aprende vive grande pequeno novo velho vermelho azul importante diferente possível difícil rápido`},
	"it": {stop: ".", comma: ",", words: `
il la gli una per con dopo fino sopra tra quando dove perché sebbene anche sempre mai adesso prima città paese casa strada scuola maestro
studente lavoro azienda tempo problema risposta domanda modo esempio sistema modello servizio utente informazione ricerca risultato analisi
cambiamento sviluppo economia governo mondo storia cultura lingua musica film libro articolo parola famiglia amico bambino medico ospedale
treno aereo sentiero montagna fiume oceano animale pianta cibo frutta caffè riunione progetto rapporto mercato prezzo prodotto qualità disegno
programma rete telefono computer immagine spiega mostra chiede vuole può deve trova offre permette aumenta riduce protegge prepara finisce
aiuta impara vive grande piccolo nuovo vecchio rosso azzurro importante diverso possibile difficile veloce`},
	"ru": {stop: ".", comma: ",", words: `
мы сегодня завтра время вопрос город деревня дом улица школа учитель ученик работа компания ответ способ пример система модель служба
пользователь информация исследование результат анализ изменение развитие экономика правительство страна мир история культура язык музыка фильм
книга статья слово семья друг ребёнок врач больница поезд самолёт дорога гора река океан животное растение еда фрукты кофе встреча проект отчёт
рынок цена товар качество рисунок программа сеть телефон компьютер картина объясняет показывает нужно хочет может должен находит предлагает
позволяет растёт снижает защищает готовит кончает помогает учится живёт большой маленький новый старый красный синий важный разный возможный
трудный быстро когда где потому хотя также всегда никогда теперь потом между через около`},
	"ar": {stop: ".", comma: "،", words: `
نحن اليوم غدا الوقت السؤال المدينة القرية البيت الشارع المدرسة المعلم الطالب العمل الشركة الجواب الطريقة المثال النظام النموذج الخدمة المستخدم
المعلومات البحث النتيجة التحليل التغيير التنمية الاقتصاد الحكومة البلد العالم التاريخ الثقافة اللغة الموسيقى الفيلم الكتاب المقال الكلمة العائلة
الصديق الطفل الطبيب المستشفى القطار الطائرة الطريق الجبل النهر البحر الحيوان النبات الطعام الفاكهة القهوة الاجتماع المشروع التقرير السوق السعر
المنتج الجودة التصميم البرنامج الشبكة الهاتف الحاسوب الصورة يشرح يظهر يحتاج يريد يمكن يجب يجد يقدم يسمح يزيد يقلل يحمي يساعد يتعلم يعيش كبير
صغير جديد قديم أحمر أزرق مهم مختلف ممكن صعب سريع عندما حيث لأن أيضا دائما الآن بعد بين حول`},
	"hi": {stop: "।", comma: ",", words: `
हम आज कल समय सवाल शहर गाँव घर सड़क स्कूल शिक्षक छात्र काम कंपनी जवाब तरीका उदाहरण प्रणाली नमूना सेवा उपयोगकर्ता जानकारी शोध परिणाम विश्लेषण
बदलाव विकास अर्थव्यवस्था सरकार देश दुनिया इतिहास संस्कृति भाषा संगीत फिल्म किताब लेख शब्द परिवार दोस्त बच्चा डॉक्टर अस्पताल रेल विमान रास्ता
पहाड़ नदी समुद्र जानवर पौधा भोजन फल चाय बैठक योजना रिपोर्ट बाज़ार कीमत उत्पाद गुणवत्ता कार्यक्रम नेटवर्क फोन कंप्यूटर तस्वीर समझाता दिखाता
चाहिए चाहता सकता मिलता देता बढ़ता घटता बचाता मदद सीखता रहता बड़ा छोटा नया पुराना लाल नीला महत्वपूर्ण अलग संभव कठिन तेज़ जब जहाँ क्योंकि हमेशा
कभी अब बाद बीच`},
}
