package config_test

import (
	"reflect"
	"strings"
	"testing"

	"parley/generate/config"
)

type inner struct {
	Share float64 `json:"share"`
	Names []string
	Of    []inner `json:"of"`
}

type outer struct {
	Name   string            `json:"name"`
	Count  int               `json:"count"`
	On     bool              `json:"on"`
	Inner  *inner            `json:"inner"`
	Ratio  *float64          `json:"ratio"`
	Labels map[string]string `json:"labels"`
	List   [][]float64       `json:"list"`
	Own    own               `json:"own"`
}

type own struct{ text string }

func (o *own) DecodeConfig(path string, v any, p *config.Problems) {
	if o.text, _ = v.(string); o.text == "bad" {
		p.Add(path, "is bad")
	}
}

func decode(t *testing.T, text string, to *outer) error {
	t.Helper()
	v, err := config.Parse([]byte(text))
	if err != nil {
		t.Fatal(err)
	}
	var p config.Problems
	config.Decode("", v, to, &p)
	return p.Err()
}

func TestDecodeLaysOver(t *testing.T) {
	ratio := 0.5
	to := outer{Name: "before", Count: 3, Ratio: &ratio, Inner: &inner{Share: 0.25, Of: []inner{{}, {}}}}
	text := "on: true\nratio: null\ninner: {of: [{share: 1}]}\nlabels: {a: 1, b: x}\nlist: [[1, 2.5], [3]]\nown: mine\n"
	if err := decode(t, text, &to); err != nil {
		t.Fatal(err)
	}
	want := outer{
		Name: "before", Count: 3, On: true, Inner: &inner{Share: 0.25, Of: []inner{{Share: 1}}},
		Labels: map[string]string{"a": "1", "b": "x"}, List: [][]float64{{1, 2.5}, {3}}, Own: own{"mine"},
	}
	if !reflect.DeepEqual(to, want) {
		t.Errorf("got %+v, want %+v", to, want)
	}
}

// Every problem is told, once, with its path.
func TestDecodeTellsEverything(t *testing.T) {
	err := decode(t, `{"nam": 1, "name": 2, "count": 1.5, "on": "yes", "inner": {"share": "x", "of": [{"share": {}}, 7]}, "labels": [], "list": [[1], "a"], "own": "bad", "Names": []}`, &outer{})
	for _, want := range []string{
		"nam: no such setting; here are count, inner, labels, list, name, on, own, ratio", "name: expected text and found 2", "count: expected a whole number and found 1.5",
		`on: expected true or false and found the text "yes"`, `inner.share: expected a number and found the text "x"`, "inner.of[0].share: expected a number and found an object with ",
		"inner.of[1]: expected an object and found 7", "labels: expected an object of labels and found a list", `list[1]: expected a list and found the text "a"`, "own: is bad", "Names: no such setting",
	} {
		if n := strings.Count("\n"+err.Error(), "\n"+want); n != 1 {
			t.Errorf("%q is told %d times in:\n%v", want, n, err)
		}
	}
	for text, want := range map[string]string{"{\n\"a\": 1,\n]": "line 3", "a: [": "yaml", "ratio: .inf": "", "\ufeff{}": ""} {
		if _, err := config.Parse([]byte(text)); (err == nil) != (want == "") || err != nil && !strings.Contains(err.Error(), want) {
			t.Errorf("%q: %v", text, err)
		}
	}
	if err := decode(t, "ratio: .inf", &outer{}); err == nil || !strings.Contains(err.Error(), "ratio: expected a number") {
		t.Errorf("infinity: %v", err)
	}
}
