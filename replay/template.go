package replay

import (
	"errors"
	"fmt"
	"strings"
)

// template is the value of a header or body field, perhaps with places for what is known of a request.
type template struct {
	name, text string
	places     bool // it has some
}

// places are what a template may have, and in turn what fills them for a request.
func places(conversation, turn, request, run, instance string) []string {
	return []string{"{conversation}", conversation, "{turn}", turn, "{request}", request, "{run}", run, "{instance}", instance}
}

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
	filled := strings.NewReplacer(places("", "", "", "", "")...).Replace(value)
	return template{name, value, filled != value}, nil
}
