package analyze

import (
	"slices"

	"parley/analyze/job"
	"parley/analyze/stat"
	"parley/schemas"
)

// Jobs is what a run of agents got done: trees of conversations (see package job). A run has it if one of
// its conversations was started by another, or if tools took time in it.
type Jobs struct {
	Planned    int64  `json:"planned"`               // trees of the main phase
	Ended      int64  `json:"ended"`                 // that ended in the window, every turn of them well: what the figures cover
	Broken     int64  `json:"broken"`                // that ended in the window without some of their turns
	Left       int64  `json:"left"`                  // that ended outside of the window, or never began
	PerHour    Num    `json:"per_hour"`              // ended, in the window's time
	PerGPUHour Num    `json:"per_gpu_hour"`          // the same by GPU
	PerUser    Num    `json:"per_user_hour"`         // by job under way in the window's mean: what one agent's user gets done
	UnderWay   Num    `json:"mean_under_way"`        // jobs at once, mean over the window
	Time       Figure `json:"time"`                  // from when the root's first turn was due to the last token of the tree
	Server     Num    `json:"path_server_s"`         // of the mean job's critical path: turns under way, from their first attempt on
	Tool       Num    `json:"path_tool_s"`           // tools, and delays before sub-agents
	Person     Num    `json:"path_person_s"`         // think times
	Client     Num    `json:"path_client_s"`         // from when a turn was due to its first attempt: places, limits, this client
	Steps      Num    `json:"mean_path_turns"`       // turns on the critical path
	Turns      Num    `json:"mean_turns"`            // of a tree
	Members    Num    `json:"mean_conversations"`    // of a tree
	Pace       Num    `json:"mean_turns_per_minute"` // of a job as its user feels it
	Uncached   Num    `json:"uncached_tokens_per_s"` // prompt tokens that the server had to read, of the jobs that ended; null if one does not tell
	Cached     Num    `json:"cached_tokens_per_s"`   // that it took from its prefix cache
	Output     Num    `json:"output_tokens_per_s"`
}

// addJobs works out the jobs of a run, if it has any: two columns, which are empty in other runs, tell.
func (a *analysis) addJobs(res *RunResult) {
	trees := slices.ContainsFunc(a.f.strs("parent_id").Codes, func(c int32) bool { return c >= 0 }) ||
		slices.ContainsFunc(a.f.floats("tool_time_ms"), func(v float64) bool { return v == v })
	if trees && !a.w.turns {
		res.Jobs = a.jobs()
	}
}

// turns gives the main phase's rows as turns of trees. A tree that warm-up began is left out whole.
func (a *analysis) turns() []job.Turn {
	f := a.f
	text := func(name string) func(row int) string {
		v := f.strs(name)
		return func(row int) string {
			if v.Codes[row] < 0 {
				return ""
			}
			return v.Values[v.Codes[row]]
		}
	}
	root, parent, joined, conversation := text("root_id"), text("parent_id"), text("joined_id"), text("conversation_id")
	parentTurn, think, tool := f.ints("parent_turn"), f.floats("think_time_ms"), f.floats("tool_time_ms")
	instance, scheduled, start, last := f.ints("instance"), f.ints("scheduled_ns"), f.ints("start_ns"), f.ints("last_token_ns")
	prompt, cached, output := f.ints("prompt_tokens"), f.ints("cached_tokens"), f.ints("completion_tokens")
	known := func(v int64) int64 {
		if v == schemas.NullInt {
			return job.Unknown
		}
		return v
	}
	type tree struct {
		root     string
		instance int64
	}
	warm := map[tree]bool{}
	out := make([]job.Turn, 0, f.rows)
	for row := range f.rows {
		q := job.Turn{
			Root: root(row), Instance: instance[row], Conversation: conversation(row), Index: int64(f.turn[row]),
			Parent: parent(row), Joined: joined(row), Scheduled: known(scheduled[row]), Start: known(start[row]), End: known(f.end[row]),
			Think: nanoseconds(think[row]), Tool: nanoseconds(tool[row]),
			OK: f.status[row] == statusOK, Sent: start[row] != schemas.NullInt,
			Prompt: known(prompt[row]), Cached: known(cached[row]), Output: known(output[row]),
		}
		if q.Root == "" {
			q.Root = q.Conversation
		}
		if q.Parent != "" && parentTurn[row] != schemas.NullInt {
			q.ParentTurn = parentTurn[row]
		}
		if last[row] != schemas.NullInt {
			q.End = last[row]
		}
		if !f.main[row] {
			warm[tree{q.Root, q.Instance}] = true
		}
		out = append(out, q)
	}
	return slices.DeleteFunc(out, func(q job.Turn) bool { return warm[tree{q.Root, q.Instance}] })
}

func nanoseconds(ms float64) int64 {
	if !(ms > 0) {
		return 0
	}
	return int64(ms * 1e6)
}

// jobs works out the figures.
func (a *analysis) jobs() *Jobs {
	all := job.Jobs(a.turns())
	out := &Jobs{
		Planned: int64(len(all)), PerHour: Missing, PerGPUHour: Missing, PerUser: Missing, UnderWay: Missing, Server: Missing, Tool: Missing, Person: Missing, Client: Missing,
		Steps: Missing, Turns: Missing, Members: Missing, Pace: Missing, Uncached: Missing, Cached: Missing, Output: Missing,
		Time: Figure{Name: "job_time", Title: "Job", Unit: "ms", Population: "trees that ended in the window, every turn of them well"},
	}
	var in stat.Sample
	var path job.Path
	var steps, turns, members, busy int64
	var pace float64
	uncached, cached, output := int64(0), int64(0), int64(0)
	for i := range all {
		j := &all[i]
		if j.Time() == job.Unknown {
			out.Left++
			continue
		}
		a.w.overlap(j.Begin, j.End, func(from, to int64) { busy += to - from })
		switch {
		case !a.w.during(j.End):
			out.Left++
			continue
		case !j.Done:
			out.Broken++
			continue
		}
		out.Ended++
		in.Values = append(in.Values, float64(j.Time())/1e6)
		in.Cluster = append(in.Cluster, int32(i))
		in.Moments = append(in.Moments, j.Begin)
		path.Server += j.Path.Server
		path.Tool += j.Path.Tool
		path.Person += j.Path.Person
		path.Client += j.Path.Client
		steps, turns, members = steps+int64(j.Depth), turns+int64(j.Turns), members+int64(j.Conversations)
		pace += j.StepsPerMinute()
		uncached, cached, output = sumKnown(uncached, j.Uncached), sumKnown(cached, j.Cached), sumKnown(output, j.Output)
	}
	var s scratch
	s.summarize(&out.Time, in, -1, a)
	seconds := float64(a.w.length()) / 1e9
	if seconds > 0 {
		out.PerHour = Num(float64(out.Ended) / seconds * 3600)
		out.UnderWay = Num(float64(busy) / 1e9 / seconds)
		for _, x := range []struct {
			to  *Num
			sum int64
		}{{&out.Uncached, uncached}, {&out.Cached, cached}, {&out.Output, output}} {
			if x.sum != job.Unknown && out.Ended > 0 {
				*x.to = Num(float64(x.sum) / seconds)
			}
		}
		if a.o.GPUs > 0 {
			out.PerGPUHour = out.PerHour / Num(a.o.GPUs)
		}
		if busy > 0 {
			out.PerUser = out.PerHour / out.UnderWay
		}
	}
	if n := float64(out.Ended); n > 0 {
		out.Server, out.Tool = Num(float64(path.Server)/1e9/n), Num(float64(path.Tool)/1e9/n)
		out.Person, out.Client = Num(float64(path.Person)/1e9/n), Num(float64(path.Client)/1e9/n)
		out.Steps, out.Turns, out.Members, out.Pace = Num(float64(steps)/n), Num(float64(turns)/n), Num(float64(members)/n), Num(pace/n)
	}
	return out
}

func sumKnown(sum, v int64) int64 {
	if sum == job.Unknown || v == job.Unknown {
		return job.Unknown
	}
	return sum + v
}
