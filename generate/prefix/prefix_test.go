package prefix

import (
	"math/rand/v2"
	"testing"
)

// prompt gives the chains of so many tokens, of which the first are shared by all prompts of a group.
func prompt(shared, n int, group, own uint64) []Chain {
	c := Chain(0).WithText("system").With(group)
	var list []Chain
	for i := range n {
		if c = c.With(uint64(i)); i == shared {
			c = c.With(1 << 40).With(own)
		}
		list = append(list, c)
	}
	return list
}

func TestKnown(t *testing.T) {
	var c Cache
	if n := c.Known(0, prompt(0, 10, 0, 0)); n != 0 {
		t.Fatalf("an empty cache knows %d", n)
	}
	for own, shared := range []int{0, 1, 15, 16, 17, 31, 32, 100, 500} {
		group := uint64(shared)
		c.Add(0, prompt(shared, 600, group, uint64(own)))
		other := prompt(shared, 600, group, uint64(1000+own))
		if n := c.Known(0, other); n != shared {
			t.Errorf("%d tokens are known of %d shared ones", n, shared)
		}
		if at := min(7, shared); c.Known(at, other[at:]) != shared-at {
			t.Errorf("%d are known behind the first %d of %d", c.Known(at, other[at:]), at, shared)
		}
		if n := c.Known(0, prompt(shared, 600, group, uint64(own))); n != 600 {
			t.Errorf("%d of 600 known tokens", n)
		}
	}
}

// TestMany holds what the comment of Cache promises: nothing is missed, and little is made up.
func TestMany(t *testing.T) {
	for _, c := range []struct {
		prompts int
		most    float64 // tokens a prompt that are not there
	}{{15_000, 0.3}, {20_000, 0.5}} {
		var cache Cache
		made := 0
		r := rand.New(rand.NewPCG(1, 2))
		for i := range c.prompts {
			p := prompt(0, 1000, r.Uint64(), uint64(i))
			made += cache.Known(0, p)
			cache.Add(0, p)
		}
		if per := float64(made) / float64(c.prompts); per > c.most {
			t.Errorf("%d prompts of 1,000 tokens: %.2f of each are taken for known", c.prompts, per)
		} else {
			t.Logf("%d prompts: %.2f", c.prompts, per)
		}
	}
}

func BenchmarkPrompt(b *testing.B) {
	var cache Cache
	i := uint64(0)
	for b.Loop() {
		p := prompt(0, 1000, i, i)
		cache.Known(0, p)
		cache.Add(0, p)
		i++
	}
	b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N)/1000, "ns/token")
}
