package replay

import (
	"errors"
	"fmt"
	"strings"
)

// template is the value of a header or body field with places for what is known of a request.
type template struct {
	name  string
	parts []string // texts and places in turn: text, place, text, ...
}

// templatePlaces are what a template may have.
var templatePlaces = []string{"conversation", "turn", "request", "run", "instance"}

// parseTemplate parses NAME<sep>TEMPLATE. Its errors do not repeat the value, which may be a secret.
func parseTemplate(text, sep string) (template, error) {
	name, value, ok := strings.Cut(text, sep)
	name = strings.TrimSpace(name)
	if !ok || name == "" {
		return template{}, fmt.Errorf("give NAME%sTEMPLATE", sep)
	}
	if sep == ":" {
		value = strings.TrimSpace(value)
		if strings.ContainsAny(name, " \t\r\n\"(),/;<=>?@[\\]{}") {
			return template{}, errors.New("the name before the colon is no name of a header")
		}
	}
	if strings.ContainsAny(value, "\r\n\x00") {
		return template{}, fmt.Errorf("%s: a value has no line ends", name)
	}
	t := template{name: name}
	for {
		i := -1
		place := ""
		for _, p := range templatePlaces {
			if j := strings.Index(value, "{"+p+"}"); j >= 0 && (i < 0 || j < i) {
				i, place = j, p
			}
		}
		if i < 0 {
			t.parts = append(t.parts, value)
			return t, nil
		}
		t.parts = append(t.parts, value[:i], place)
		value = value[i+len(place)+2:]
	}
}

// fill gives the value with its places filled in.
func (t *template) fill(value func(place string) string) string {
	if len(t.parts) == 1 {
		return t.parts[0]
	}
	var b strings.Builder
	for i, p := range t.parts {
		if i%2 == 1 {
			p = value(p)
		}
		b.WriteString(p)
	}
	return b.String()
}
