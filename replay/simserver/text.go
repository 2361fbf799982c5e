package simserver

import "math/bits"

// words are what answers are made of: each is one token of Tokenize with the space before it.
var words = [...]string{
	" the", " of", " and", " a", " to", " in", " is", " that", " for", " it", " as", " with", " on", " be", " at", " by",
	" this", " which", " from", " or", " an", " but", " when", " each", " are", " can", " has", " more", " one", " so", " time", " then",
	" value", " point", " result", " step", " case", " system", " number", " first", " second", " order", " model", " data", " part", " set", " small", " large",
	" often", " before", " after", " under", " over", " given", " known", " need", " give", " take", " keep", " find", " show", " work", " hold", " start",
	" river", " garden", " letter", " window", " market", " summer", " stone", " paper", " light", " water", " house", " street", " table", " story", " music", " winter",
	" slowly", " early", " again", " still", " always", " never", " almost", " above", " below", " around", " during", " since", " until", " while", " where", " there",
	" change", " answer", " reason", " detail", " method", " simple", " common", " likely", " single", " whole", " close", " open", " short", " long", " clear", " quick",
	" people", " place", " world", " group", " state", " level", " line", " side", " form", " power", " cost", " rate", " space", " rule", " test", ".",
}

// foreign are words outside ASCII, one token each as well; none of them needs escaping in JSON.
var foreign = [...]string{" été", " naïve", " où", " größe", " über", " señor", " слово", " время", " ещё", " λόγος", " çok", " årlig", " žluť", " ñandú", " שלום", " مرحبا"}

// mix is the finalizer of SplitMix64 (Steele, Lea, Flood, "Fast splittable pseudorandom number
// generators", 2014): independent-looking values for neighbouring inputs.
func mix(x uint64) uint64 {
	x += 0x9E3779B97F4A7C15
	x = (x ^ x>>30) * 0xBF58476D1CE4E5B9
	x = (x ^ x>>27) * 0x94D049BB133111EB
	return x ^ x>>31
}

// derive gives a random number for a purpose and an index.
func derive(seed int64, purpose string, index uint64) uint64 {
	h := uint64(fnvOffset)
	for i := range len(purpose) {
		h = (h ^ uint64(purpose[i])) * fnvPrime
	}
	return mix(mix(uint64(seed)^h) ^ bits.RotateLeft64(index, 17))
}

// unit maps a random number to [0, 1).
func unit(x uint64) float64 { return float64(x>>11) / (1 << 53) }

// tagWord is the first word of answer n and the end of its response id: six letters, different for
// each of the first 26^6 (309 million) answers of a server.
func tagWord(n uint64) string {
	const m = 26 * 26 * 26 * 26 * 26 * 26
	x := n % m * 187_654_321 % m // the factor has no divisor in common with 26
	var b [6]byte
	for i := range b {
		b[i] = 'a' + byte(x%26)
		x /= 26
	}
	return string(b[:])
}

// wordAt gives the text of token i of an answer: its tag first, then prose.
func wordAt(tag string, rnd uint64, i int, outside bool) string {
	if i == 0 {
		return tag
	}
	x := mix(rnd + uint64(i))
	if outside {
		return foreign[x%uint64(len(foreign))]
	}
	n := uint64(len(words))
	if i%2 == 1 {
		n-- // no full stop: two in a row would be one token
	}
	return words[x%n]
}
