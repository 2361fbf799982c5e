package simserver

// prompt is the tokens of a request: how many, and the chained hashes of its full blocks.
type prompt struct {
	tokens int
	hashes []uint64
	block  int
	chain  uint64
}

// add appends one token.
func (p *prompt) add(token uint64) {
	p.tokens++
	p.chain = mix(p.chain ^ token)
	if p.block > 0 && p.tokens%p.block == 0 {
		p.hashes = append(p.hashes, p.chain)
	}
}

// addText appends the tokens of s.
func (p *prompt) addText(s string) {
	for i := 0; i < len(s); {
		start := i
		i = nextToken(s, i)
		h := uint64(fnvOffset)
		for j := start; j < i; j++ {
			h = (h ^ uint64(s[j])) * fnvPrime
		}
		p.add(h)
	}
}

// Marks of the chat template, one token each. The template is <|role|> text <|end|> for each message, and
// <|assistant|> where the answer begins, so that prompt and answer together are the start of the
// conversation's next prompt.
func (p *prompt) mark(name string) { p.add(derive(0, "<|"+name+"|>", 1)) }
