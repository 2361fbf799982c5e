package prose

import (
	"math/rand/v2"
	"testing"
)

type byWords struct{}

func (byWords) Count(string) int { return 1 }

func BenchmarkComposeAlone(b *testing.B) {
	p, err := New(byWords{})
	if err != nil {
		b.Fatal(err)
	}
	r := rand.New(rand.NewPCG(1, 2))
	dst := p.compose(nil, r, 8000, nil)
	b.SetBytes(int64(len(dst)))
	for b.Loop() {
		dst = p.compose(dst[:0], r, 8000, nil)
	}
}
