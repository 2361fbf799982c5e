// Package replay drives LLM servers with the conversations of a dataset and writes down what happened to
// each planned turn. [Run] does a whole run, [Plan] shows a run's schedule without sending anything, and
// [Calibrate] measures what the client itself adds at a run's load.
//
// # How a load comes about
//
// One dispatcher goes over the schedule: the dataset's conversations, pass after pass, each with an offset
// from an arrival sequence ([Poisson], [Gamma], [Constant], [Recorded], raised by [Ramp]). A closed loop
// is the sequence in which all are due at once, and a limit of conversations whose places open at the
// start, or one by one. Each conversation is read and encoded shortly before its time and has a goroutine,
// which owns its history and waits by itself: for its time, for a place among the conversations, for a
// place among the requests, for its think times. There is no code per combination of modes.
//
// Waiting for a time is the pacer's matter: it fires each waiter at its absolute time, from a precise
// sleep, and gives way at once, so that the fired goroutine runs on the processor that is awake already.
// Places of a limit go from hand to hand without being free in between, which keeps a limit exact and its
// queue in order.
//
// # What becomes of rows
//
// A row is handed to the collector, which never blocks; the collector's goroutine alone writes the journal
// (package schemas), several times a second. When the journal falls behind, rows wait in memory; above a
// bound no further turn starts until it has caught up, so the memory is bounded, and the streams that run
// are not held up. When the journal fails, the load ends.
//
// The number of planned turns is counted apart from the rows, and both are compared at the end.
//
// # What ends a run
//
// The end of its extent; its Requests or Duration, after which running turns have the Grace; its Deadline;
// the caller's two interrupts; an error of its own, such as a full disk; and a watchdog, when a request
// outlives every limit or nothing moves any more. In each case the turns that are left get their rows.
package replay
