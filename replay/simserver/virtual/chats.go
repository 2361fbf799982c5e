package virtual

import (
	"fmt"
	"math"
	"math/rand/v2"
	"time"

	"parley/schemas"
)

// Shape is what conversations are like. Lengths are log-normal with the sigma given, think times exponential, the
// number of turns geometric.
type Shape struct {
	Turns  float64       // mean of a conversation
	System int           // tokens that all first prompts begin with
	First  float64       // mean new tokens of a first turn, besides those
	Later  float64       // of a later one
	Output float64       // mean tokens of an answer
	Sigma  float64       // of the logarithm of all lengths
	Think  time.Duration // mean, before all turns but the first
}

// Make makes n conversations. The same seed gives the same ones.
func (s Shape) Make(seed uint64, n int) *Conversations {
	c, err := Read("chats", func(yield func(schemas.Outline, error) bool) {
		for i := range n {
			if !yield(s.conversation(rand.New(rand.NewPCG(seed, uint64(i))), i), nil) {
				return
			}
		}
	})
	if err != nil {
		panic(err) // nothing above gives one
	}
	return c
}

func (s *Shape) conversation(r *rand.Rand, i int) schemas.Outline {
	length := func(mean float64) int64 {
		return 1 + int64(mean*math.Exp(s.Sigma*r.NormFloat64()-s.Sigma*s.Sigma/2))
	}
	o := schemas.Outline{ConversationID: fmt.Sprintf("c%05d", i)}
	history := int64(s.System)
	for t := 0; t == 0 || r.Float64() >= 1/s.Turns; t++ {
		mean, think, shared := s.First, 0.0, int64(s.System)
		if t > 0 {
			mean, think, shared = s.Later, r.ExpFloat64()*float64(s.Think)/1e6, history
		}
		fresh, output := length(mean), length(s.Output)
		prompt := history + fresh
		history = prompt + output
		o.Turns = append(o.Turns, schemas.Turn{
			MessageIndex: int64(2*t + 1), NewTokens: &fresh, PromptTokens: &prompt, OutputTokens: &output, ThinkTimeMS: &think, ExpectedCachedTokens: &shared,
		})
	}
	return o
}
