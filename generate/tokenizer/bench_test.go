package tokenizer

import (
	"math/rand/v2"
	"strings"
	"testing"
)

// prose is English-like text of about n bytes for benchmarks, with words of different rarity.
func prose(n int) string {
	words := strings.Fields("the of and to in a is that for it as was with be by on not he his but at are this have from or had an they which one you were her all their there been has when who will more no if out so said what up its about into than them can only other new some could time these two may then do first any my now such like our over man me even most made after also did many before must through back years where much your way well down should because each just those people how too little state good very make world still own see men work long get here between both life being under never day same another know while last might us great old year off come since against go came right used take three")
	r := rand.New(rand.NewPCG(7, 7))
	var b strings.Builder
	for b.Len() < n {
		w := words[min(r.IntN(len(words)), r.IntN(len(words)))]
		switch r.IntN(12) {
		case 0:
			w = strings.ToUpper(w[:1]) + w[1:]
		case 1:
			w += words[r.IntN(len(words))] + "ing"
		}
		b.WriteString(w)
		switch r.IntN(15) {
		case 0:
			b.WriteString(", ")
		case 1:
			b.WriteString(".\n")
		default:
			b.WriteByte(' ')
		}
	}
	return b.String()
}

func BenchmarkCount(b *testing.B) {
	r := rand.New(rand.NewPCG(1, 2))
	for _, text := range []struct{ name, s string }{{"prose", prose(1 << 20)}, {"hostile", hostile(r, 1<<18)}} {
		for _, name := range []string{"cl100k_base", "o200k_base"} {
			tok := load(b, name)
			b.Run(text.name+"/"+name, func(b *testing.B) {
				b.SetBytes(int64(len(text.s)))
				for b.Loop() {
					tok.Count(text.s)
				}
			})
			b.Run(text.name+"/"+name+"/tiktoken-go", func(b *testing.B) {
				enc := oracle(b, name)
				b.SetBytes(int64(len(text.s)))
				for b.Loop() {
					enc.EncodeOrdinary(text.s)
				}
			})
		}
	}
}

func BenchmarkLoad(b *testing.B) {
	for b.Loop() {
		if _, err := Load("o200k_base"); err != nil {
			b.Fatal(err)
		}
	}
}
