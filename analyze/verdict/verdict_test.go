package verdict

import (
	"math"
	"strings"
	"testing"

	"parley/schemas"
)

func TestLimitsAreWhole(t *testing.T) {
	seen := map[string]bool{}
	for _, l := range Limits {
		if seen[l.Signal] {
			t.Errorf("%s stands twice", l.Signal)
		}
		seen[l.Signal] = true
		if l.Meaning == "" || l.Advice == "" {
			t.Errorf("%s lacks its meaning or advice", l.Signal)
		}
		if l.Low && l.Invalid > l.Suspect || !l.Low && l.Invalid < l.Suspect {
			t.Errorf("%s: invalid before suspect", l.Signal)
		}
	}
}

func TestJudge(t *testing.T) {
	for _, c := range []struct {
		name    string
		signals []Signal
		grade   schemas.Grade
		reasons string // the signals with their grades
	}{
		{"nothing", nil, schemas.Valid, ""},
		{"unknown", []Signal{{"error_rate", math.NaN(), "", ""}}, schemas.Valid, ""},
		{"within", []Signal{{"error_rate", 0.0099, "", ""}, {"sample", 64, "", ""}}, schemas.Valid, ""},
		{"at the limit", []Signal{{"error_rate", 0.01, "", ""}}, schemas.Suspect, "error_rate SUSPECT"},
		{"the worst counts", []Signal{{"error_rate", 0.5, "", ""}, {"sample", 3, "", ""}}, schemas.Invalid, "error_rate INVALID, sample SUSPECT"},
		{"in any order", []Signal{{"sample", 3, "", ""}, {"error_rate", 0.5, "", ""}}, schemas.Invalid, "sample SUSPECT, error_rate INVALID"},
		{"never invalid", []Signal{{"output_length", 1, "", ""}, {"sample", 1, "", ""}, {"warm_cache", 1, "", ""}}, schemas.Suspect, "output_length SUSPECT, sample SUSPECT, warm_cache SUSPECT"},
		{"no turn at all", []Signal{{"sample", 0, "", ""}}, schemas.Suspect, "sample SUSPECT"},
		{"any at all", []Signal{{"cached_above_prompt", 1e-6, "", ""}}, schemas.Suspect, "cached_above_prompt SUSPECT"},
		{"none at all", []Signal{{"cached_above_prompt", 0, "", ""}}, schemas.Valid, ""},
	} {
		v := Judge(c.signals)
		var reasons []string
		for _, r := range v.Reasons {
			reasons = append(reasons, r.Signal+" "+string(r.Grade))
			if r.Text == "" || r.Advice == "" {
				t.Errorf("%s: %+v says too little", c.name, r)
			}
		}
		if got := strings.Join(reasons, ", "); v.Grade != c.grade || got != c.reasons {
			t.Errorf("%s: %s because of %q, want %s because of %q", c.name, v.Grade, got, c.grade, c.reasons)
		}
	}
}

func TestReasonTellsTheNumbers(t *testing.T) {
	r := Judge([]Signal{{"error_rate", 0.125, "5 of 40 turns failed", ""}}).Reasons[0]
	if r.Text != "5 of 40 turns failed (wanted at most 1 %)" || r.Value != 0.125 || r.Limit != 0.01 {
		t.Errorf("%+v", r)
	}
	r = Judge([]Signal{{"sample", 12, "", ""}}).Reasons[0]
	if r.Text != "completed turns in the window: 12 turns (wanted at least 64 turns)" {
		t.Errorf("%q", r.Text)
	}
}

func TestAtLeast(t *testing.T) {
	for _, c := range []struct {
		grade, wanted schemas.Grade
		held          bool
	}{
		{schemas.Valid, schemas.Suspect, true}, {schemas.Suspect, schemas.Suspect, true}, {schemas.Invalid, schemas.Suspect, false},
		{schemas.Valid, schemas.Valid, true}, {schemas.Suspect, schemas.Valid, false}, {schemas.Invalid, schemas.Invalid, true},
	} {
		if AtLeast(c.grade, c.wanted) != c.held {
			t.Errorf("%s at least %s: %v", c.grade, c.wanted, !c.held)
		}
	}
}
