package generate

import (
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"parley/generate/prose"
	"parley/schemas/random"
)

// share is a name with how much of something it gets.
type share struct {
	name string
	part float64
}

// parseShares reads "en:0.7,zh:0.3". Where no part is given at all, all names get the same.
func parseShares(text string) ([]share, error) {
	var list []share
	given := 0
	for _, item := range strings.Split(text, ",") {
		name, part, ok := strings.Cut(strings.TrimSpace(item), ":")
		s := share{strings.TrimSpace(name), 1}
		if ok {
			v, err := strconv.ParseFloat(part, 64)
			if err != nil || !(v > 0) || v > 1e9 {
				return nil, fmt.Errorf("%q: the share of %s must be a number greater than 0", text, s.name)
			}
			s.part = v
			given++
		}
		for _, other := range list {
			if other.name == s.name {
				return nil, fmt.Errorf("%q has %s twice", text, s.name)
			}
		}
		list = append(list, s)
	}
	if given != 0 && given != len(list) {
		return nil, fmt.Errorf("%q: give a share to each, as in a:0.7,b:0.3, or to none", text)
	}
	if given == 0 {
		for i := range list {
			list[i].part = 1 / float64(len(list))
		}
	}
	return list, nil
}

// pick gives the place of x, from 0 to 1, among the shares, or -1 where it lies beyond them.
func pick(list []share, x float64) int {
	for i, s := range list {
		if x < s.part {
			return i
		}
		x -= s.part
	}
	return -1
}

// languages reads the shares of languages, which are scaled to 1.
func (s *Spec) languages() ([]share, error) {
	if s.Languages == "" {
		return nil, nil
	}
	list, err := parseShares(s.Languages)
	if err != nil {
		return nil, err
	}
	known, sum := prose.Languages(), 0.0
	for _, l := range list {
		sum += l.part
		if !slices.Contains(known, l.name) {
			return nil, fmt.Errorf("language %q is not known: there are %s", l.name, strings.Join(known, ", "))
		}
	}
	for i := range list {
		list[i].part /= sum
	}
	if len(s.TextFiles) > 0 {
		return nil, errors.New("the text comes from text_files: give either these or languages")
	}
	return list, nil
}

// speaker gives the voice of a conversation, and the name of its language where there is a choice.
func (b *builder) speaker(number uint64) (prose.Voice, string, error) {
	if len(b.languages) == 0 {
		return b.prose.English(), "", nil
	}
	i := max(0, pick(b.languages, random.Stream(b.seed, "language", number).Float64()))
	name := b.languages[i].name
	v, err := b.prose.In(name)
	return v, name, err
}
