// Package replay drives LLM servers with the conversations of a dataset and writes down what happened to
// each planned turn. [Run] does a whole run, [Plan] shows a run's schedule without sending anything, and
// [Calibrate] measures what the client itself adds at a run's load.
//
// # Where to look
//
//   - What was asked for: [Config], which is validated once, and becomes the rules of package load.
//   - When a turn is due, and whether it is sent at all, is decided in package load, by [load.Scheduler]: a pure
//     machine without clock and goroutine. The dry run, the run, the resumed run and the tests drive the same one.
//   - A turn is sent by its conversation's goroutine in package engine, which runs that machine on real time
//     ([engine.Engine]); the line to the server is line.go here, over the client of package internal/wire.
//   - It is timed where its bytes arrive: internal/stampconn has the kernel's receive stamps, internal/sse and
//     internal/api find the first event that proves a token, internal/clock keeps the run's time.
//   - Its row goes through the collector (package engine) into the journal (package schemas), and from there,
//     at the end, into the files.
//   - What a run does before its load is scout.go: readiness, kind, model, request parameters; run.go holds the
//     whole together; resume.go reads what an interrupted run left.
//   - The simulated server is package simserver. It is reached over HTTP only.
//
// # What ends a run
//
// The end of its extent; its Requests or Duration, after which running turns have the Grace; its Deadline; its
// error budget, when the server answers with nothing but errors; the caller's two interrupts; an error of its own,
// such as a full disk; and a watchdog, when a request outlives every limit or nothing can move any more. In each
// case the turns that are left get their rows. The number of planned turns is counted apart from the rows, and both
// are compared at the end.
package replay
