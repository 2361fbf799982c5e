package prose

import (
	"math/rand/v2"
	"strings"
	"sync"
)

// Sentences are written with one code per word: the code of a list below, or the word itself. A comma
// binds to the word before it. The first word of a sentence is capitalised, and the full stop is added.
var codes = map[string]list{
	"ADJ": lAdjective, "N": lNoun, "NS": lPlural, "VD": lPast, "VS": lThird, "V": lBase, "VG": lGerund,
	"ADV": lAdverb, "NAME": lName, "PLACE": lPlace, "PREP": lPreposition, "DET": lDeterminer,
	"DETS": lPluralDeterminer, "CONJ": lConjunction,
}

var sentences = []string{
	"ADJ NS VD DET N PREP DET ADJ N",
	"DET ADJ N VD DET N ADV",
	"DET N PREP PLACE VD DETS NS CONJ NAME VD DET N",
	"NAME ADV VD DET ADJ N and VD DET N",
	"PREP DET ADJ N, DETS ADJ NS VD DET N",
	"DETS NS VG DET N were ADJ, CONJ DET ADJ N VD NAME",
	"NAME and NAME VD DETS ADJ NS PREP PLACE",
	"ADV, DET N VD DET ADJ N that NAME VD",
	"VG DET N VD DETS NS more ADV than VG DET ADJ N",
	"DET N will V DET N, CONJ DETS NS V DET ADJ N",
	"in PLACE, DET ADJ N VS DETS NS ADV",
	"what NAME VD PREP DET N was DET ADJ N",
	"DET ADJ and ADJ N of DET N VD DETS NS",
	"CONJ NAME VD DET N, DET ADJ N ADV VD DETS NS",
	"DET N that VD NAME PREP PLACE VD DET ADJ N ADV",
	"NAME had ADV VD DET N PREP DET N, VG DETS ADJ NS",
	"DETS ADJ NS PREP DET N could V DET N",
	"to V DET ADJ N, NAME VD DETS NS PREP DET N",
	"ADJ NS and ADJ NS VD NAME PREP DET N of PLACE",
	"DET N was VD by DETS NS, VD by DET ADJ N and VD by NAME",
	"nobody PREP PLACE VD how DET ADJ N VD DET N",
	"NAME VS DET N whenever DETS ADJ NS V DET N",
	"DETS NS of PLACE ADV V DET ADJ N CONJ DET N VS DET N",
	"PREP DET N, NAME would rather V DET ADJ N than V DET N",
	"DET N VD, ADV VG DET ADJ N PREP DETS NS",
	"it was NAME who VD DET ADJ N PREP DET N",
	"DET ADJ N of NAME VD DETS NS from PLACE",
	"VD by DET N, DETS ADJ NS VD DET N CONJ NAME VD DET N",
	"DET N and DET N VD DET ADJ N, which ADV VD DETS NS",
	"please V DET ADJ N, V DETS NS and ADV V DET N PREP PLACE",
	"DETS ADJ NS may V DET N, although NAME ADV VD DETS NS",
	"how NAME VD DET N PREP DET ADJ N is DET ADJ N",
	"NAME VD that DET N PREP PLACE should V DETS ADJ NS",
	"DET ADJ N had to V DETS NS before NAME VD DET N",
	"ADJ, ADJ and ADJ NS VD DET N PREP DET N",
	"PREP PLACE and PLACE, DETS NS V DET ADJ N ADV",
	"DET N of DET ADJ N VS NAME, CONJ DETS NS V DET N",
	"some of DET ADJ NS VD DET N, others VD DET N PREP PLACE",
	"there are DETS ADJ NS PREP DET N, and NAME VS DET N",
	"neither DET ADJ N nor DETS NS VD NAME PREP DET N",
}

// slot is one place of a sentence, with the units that may stand there.
type slot struct {
	units []unit // one of these, drawn
	comma bool   // and a comma behind
}

type sentence struct {
	slots []slot
	upper []unit // for the first place, inside a paragraph
	para  []unit // for the first place of a paragraph
}

// splitTemplate gives the codes of a sentence, and whether a comma follows each.
func splitTemplate(s string) (words []string, commas []bool) {
	for _, w := range strings.Fields(s) {
		bare, comma := strings.CutSuffix(w, ",")
		words, commas = append(words, bare), append(commas, comma)
	}
	return words, commas
}

// templateLiterals lists the words that are spelled out, in each form in which they are used.
var templateLiterals = sync.OnceValue(func() []string {
	var out []string
	for _, s := range sentences {
		words, _ := splitTemplate(s)
		for i, w := range words {
			if _, isList := codes[w]; isList {
				continue
			}
			out = append(out, " "+w)
			if i == 0 {
				out = append(out, " "+capital(w), capital(w))
			}
		}
	}
	return out
})

func compileSentences(v *vocabulary) []sentence {
	out := make([]sentence, 0, len(sentences))
	for _, s := range sentences {
		words, commas := splitTemplate(s)
		var c sentence
		for i, w := range words {
			sl := slot{comma: commas[i]}
			if l, ok := codes[w]; ok {
				sl.units = v.lower[l]
				if l == lName || l == lPlace {
					sl.units = v.upper[l]
				}
				if i == 0 {
					c.upper, c.para = v.upper[l], v.para[l]
				}
			} else {
				sl.units = []unit{v.literals[" "+w]}
				if i == 0 {
					c.upper, c.para = []unit{v.literals[" "+capital(w)]}, []unit{v.literals[capital(w)]}
				}
			}
			c.slots = append(c.slots, sl)
		}
		out = append(out, c)
	}
	return out
}

// draws hands out small random numbers, four from each number of the generator.
type draws struct {
	r    *rand.Rand
	bits uint64
	left int
}

// index draws a number in [0, n), n at most 2^16. The bias of at most n/2^16 is of no account here.
func (d *draws) index(n int) int {
	if n == 1 {
		return 0
	}
	if d.left == 0 {
		d.bits, d.left = d.r.Uint64(), 4
	}
	x := d.bits & 0xffff
	d.bits >>= 16
	d.left--
	return int(x * uint64(n) >> 16)
}

func (d *draws) unit(units []unit) unit { return units[d.index(len(units))] }
