package replay

import (
	"bytes"
	"encoding/json"
	"fmt"
	"maps"
	"net/url"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"time"

	"parley/replay/engine"
	"parley/replay/load"
	"parley/schemas"
)

// left is what an interrupted run left: which turns have rows, and how long it was under load.
//
// A resumed run sends no turn again that has a row. A conversation that was under way goes on with the
// first turn that has none; its history holds the answers of the interrupted run where that saved them
// (--save-text), else the recorded ones, since the server's own are gone. A conversation whose last turn
// had failed does not go on (unless the run keeps going past failures).
type left struct {
	load.Left
	meta    *schemas.RunMeta
	answers map[load.Key][]*string
	last    int64 // the last moment that a row has, in run time
}

func (l *left) saved(k load.Key) []*string { return l.answers[k] }

// readLeft reads the journal of an interrupted run.
func readLeft(dir string) (*left, error) {
	meta, err := schemas.JournalMeta(dir)
	if err != nil {
		return nil, err
	}
	l := &left{meta: meta, answers: map[load.Key][]*string{}}
	l.Done = load.Done{}
	state, err := schemas.ReadJournal(dir, l.add)
	if err != nil {
		return nil, err
	}
	if state.Finished {
		return nil, fmt.Errorf("%s is the journal of a run that ended by itself: there is nothing to resume", dir)
	}
	l.settleTime()
	return l, nil
}

// settleTime gives the time that the interrupted run, and those that it had itself continued, were under load. Of
// each that counts from its load's begin to the last moment that a row tells of.
func (l *left) settleTime() {
	l.Time = l.last
	if n := len(l.meta.Sessions); n > 0 {
		s := l.meta.Sessions[n-1]
		l.Time = s.LoadNS + max(0, l.last-s.StartNS)
	}
}

// add takes rows of the interrupted run.
func (l *left) add(rows []schemas.Request) error {
	for i := range rows {
		row := &rows[i]
		key, err := keyOf(row)
		if err != nil {
			return err
		}
		l.Rows++
		status := schemas.Status(row.Status)
		p := l.Done[key]
		if status.Sent() {
			l.Sent++
			if row.Phase == schemas.PhaseMain {
				l.Main++
			}
			p.Sent = max(p.Sent, int32(row.Turn)+1)
			p.Failed = status != schemas.StatusOK
			l.Judge(engine.OutcomeOf(status))
		}
		p.Turns = max(p.Turns, int32(row.Turn)+1)
		l.Done[key] = p
		for _, m := range []*int64{row.DoneNS, row.SentNS, row.StartNS, row.ReadyNS} {
			if m != nil {
				l.last = max(l.last, *m)
			}
		}
		if row.Text != nil {
			list := l.answers[key]
			for len(list) <= int(row.Turn) {
				list = append(list, nil)
			}
			text := *row.Text
			list[row.Turn] = &text
			l.answers[key] = list
		}
	}
	return nil
}

// keyOf gives the row of the dataset, and the pass, that a row of results belongs to: its request_id tells it,
// while several conversations may have the same identifier.
func keyOf(row *schemas.Request) (load.Key, error) {
	id := row.RequestID
	turn := strings.LastIndexByte(id, '-')
	if turn > 0 {
		at := strings.LastIndexByte(id[:turn], '-')
		number, pass, ok := strings.Cut(id[at+1:turn], ".")
		n, err1 := strconv.ParseInt(number, 10, 32)
		p, err2 := strconv.ParseInt(pass, 10, 64)
		if ok && err1 == nil && err2 == nil {
			return load.Key{Row: int32(n), Pass: p}, nil
		}
	}
	return load.Key{}, fmt.Errorf("--resume: the journal's row %q is none of a run of parley", id)
}

// free are the parts of a configuration that a resumed run may have otherwise: the output, the servers' addresses
// (their paths are compared apart), the limits, and what only this start of it concerns. The dataset is compared by
// its content.
var free = []string{
	"output", "resume", "run_id", "dataset", "urls", "duration", "requests", "min_duration", "loops", "deadline", "grace",
	"timeout", "idle_timeout", "max_errors", "start_at", "ready_limit", "label",
}

// continues checks that a run may go on with what an interrupted one left: it has to be the same load.
func (r *run) continues(old *schemas.RunMeta) error {
	if old.Dataset.ContentHash != r.meta.Dataset.ContentHash {
		return fmt.Errorf("--resume: the interrupted run replayed another dataset (%s with the hash %s)", old.Dataset.File, old.Dataset.ContentHash)
	}
	was, err := settings(old.Config)
	if err != nil {
		return fmt.Errorf("--resume: the interrupted run's configuration: %w", err)
	}
	is, err := settings(r.meta.Config)
	if err != nil {
		return err
	}
	var problems []string
	names := slices.Collect(maps.Keys(was))
	for name := range is {
		if _, ok := was[name]; !ok {
			names = append(names, name)
		}
	}
	slices.Sort(names)
	for _, name := range names {
		a, b := was[name], is[name]
		if !slices.Contains(free, name) && !bytes.Equal(a, b) {
			problems = append(problems, fmt.Sprintf("it had %s, this one has %s", flagText(name, a), flagText(name, b)))
		}
	}
	if a, b := paths(was["urls"]), paths(is["urls"]); !slices.Equal(a, b) {
		problems = append(problems, fmt.Sprintf("it had --url with the paths %q, this one has %q", a, b))
	}
	if len(problems) > 0 {
		return fmt.Errorf("--resume: the interrupted run was another load: %s; only its limits, its output and the host of --url may differ", strings.Join(problems, "; "))
	}
	r.meta.RunID = old.RunID
	r.meta.ResumedFrom = old.RunID
	r.meta.Sessions = old.Sessions
	r.meta.Warnings = append(r.meta.Warnings, "the run was interrupted and resumed: look at windows before or after the gap, not across it")
	return nil
}

// sameTargets checks what the servers turned out to be.
func (r *run) sameTargets(old *schemas.RunMeta) error {
	for i, t := range r.meta.Targets {
		if i < len(old.Targets) && old.Targets[i].Model != t.Model {
			return fmt.Errorf("--resume: the interrupted run had --model %q, this one has %q", old.Targets[i].Model, t.Model)
		}
	}
	return nil
}

// settings gives the parts of a configuration, without white space.
func settings(config json.RawMessage) (out map[string]json.RawMessage, err error) {
	var b bytes.Buffer
	if err := json.Compact(&b, config); err != nil {
		return nil, err
	}
	return out, json.Unmarshal(b.Bytes(), &out)
}

// flagText gives a part of a configuration as the flag that asks for it.
func flagText(name string, value json.RawMessage) string {
	flag := "--" + strings.ReplaceAll(name, "_", "-")
	if known, ok := map[string]string{
		"concurrency_stages": "--concurrency", "rate_stages": "--rate", "headers": "--header", "body_fields": "--body-field",
		"echo_headers": "--echo-header", "simulated_servers": "--url", "simulated": "--url sim:",
	}[name]; ok {
		flag = known
	}
	if value == nil {
		return "no " + flag
	}
	var texts []string
	var stages []load.Stage
	var d time.Duration
	switch kind := configKinds[name]; {
	case kind == reflect.TypeOf(d) && json.Unmarshal(value, &d) == nil:
		return flag + " " + max(d, 0).String() // None is a limit of 0 there
	case kind == reflect.TypeOf(stages) && json.Unmarshal(value, &stages) == nil:
		for _, s := range stages {
			text := strconv.FormatFloat(s.Level, 'g', -1, 64)
			if s.For > 0 {
				text += ":" + s.For.String()
			}
			texts = append(texts, text)
		}
		return flag + " " + strings.Join(texts, ",")
	case kind == reflect.TypeOf(texts) && json.Unmarshal(value, &texts) == nil:
		return flag + " " + strings.Join(texts, " "+flag+" ")
	case kind == reflect.TypeOf(true):
		return flag
	}
	text := string(value)
	if err := json.Unmarshal(value, &text); err != nil {
		text = string(value) // a number
	}
	return flag + " " + text
}

// configKinds are the types of a configuration's parts, by their names in a file.
var configKinds = func() map[string]reflect.Type {
	kinds := map[string]reflect.Type{}
	for f := range reflect.TypeFor[Config]().Fields() {
		name, _, _ := strings.Cut(f.Tag.Get("json"), ",")
		kinds[name] = f.Type
	}
	return kinds
}()

// paths gives the paths of URLs.
func paths(list json.RawMessage) (out []string) {
	var urls []string
	_ = json.Unmarshal(list, &urls) // what it is not, the validation has said
	for _, text := range urls {
		if u, err := url.Parse(text); err == nil {
			out = append(out, strings.TrimSuffix(u.Path, "/"))
		}
	}
	return out
}
