package simserver

// plan is what is to go wrong with one request.
type plan struct {
	never, tooMany, fail  bool
	slowHeaders           bool
	mid                   string // at the middle of the answer: cut, reset, truncate, stall, error_in_stream
	empty                 bool
	hugeLine, split, crlf bool
	gzip, noDone, hang    bool
	plainJSON             bool
	name                  string // of all that hits, for the log
}

// plan draws the faults of request seq. Of those that end or replace the answer the first in the order
// below wins; those of form are independent.
func (c *Config) plan(seq uint64) plan {
	var p plan
	hit := func(name string, share float64) bool {
		if share <= 0 || unit(derive(c.Seed, name, seq)) >= share {
			return false
		}
		if p.name != "" {
			p.name += ","
		}
		p.name += name
		return true
	}
	switch {
	case hit("never", c.Never):
		p.never = true
		return p
	case hit("429", c.TooMany):
		p.tooMany = true
		return p
	case hit("fail", c.Fail):
		p.fail = true
		return p
	}
	p.slowHeaders = hit("slow_headers", c.SlowHeaders)
	switch {
	case hit("empty", c.Empty):
		p.empty = true
	case hit("cut", c.Cut):
		p.mid = "cut"
	case hit("reset", c.Reset):
		p.mid = "reset"
	case hit("truncate", c.Truncate):
		p.mid = "truncate"
	case hit("error_in_stream", c.ErrorInStream):
		p.mid = "error_in_stream"
	case hit("stall", c.Stall):
		p.mid = "stall"
	}
	p.hugeLine = hit("huge_line", c.HugeLine)
	p.split = hit("split_utf8", c.SplitUTF8)
	p.crlf = hit("crlf", c.CRLF)
	p.gzip = hit("gzip", c.Gzip)
	p.noDone = hit("no_done", c.NoDone)
	p.hang = hit("hang_after_done", c.HangAfterDone)
	p.plainJSON = hit("plain_json", c.PlainJSON)
	return p
}
