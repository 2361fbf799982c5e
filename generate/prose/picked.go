package prose

import "strings"

// Words gives a text of as many tokens as there are numbers: each chooses a word of one token. So texts
// whose first numbers are the same begin with the same words.
func (p *Prose) Words(picks []uint64) (string, error) {
	if len(picks) == 0 {
		return "", nil
	}
	v := p.vocab
	var b strings.Builder
	b.Grow(8 * len(picks))
	b.WriteString(v.one[picks[0]%uint64(len(v.one))].text[1:])
	for _, n := range picks[1:] {
		b.WriteString(v.single[n%uint64(len(v.single))].text)
	}
	text, err := p.verified(b.String(), len(picks))
	return strings.TrimPrefix(text, " "), err
}
