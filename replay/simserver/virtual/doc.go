// Package virtual makes runs in virtual time: the load of a dataset, decided by the machine of a real run
// (load.Scheduler), against the simulated server's engine (package batch). Two minutes of 50 conversations take some
// tens of milliseconds, and give rows like a real run's, but for what only a network has: a request is there when it
// is sent, and a token is received when it is made.
//
//	chats := virtual.Shape{Turns: 4, ...}.Make(1, 400)     // or virtual.Read(NAME, outlines of a dataset)
//	run, err := chats.Play(load.Rules{Concurrency: []load.Stage{{Level: 50}}, Duration: 2 * time.Minute, ...}, engine)
//	run.Rows, run.Meta, run.Telemetry
//
// Everything derives from the seeds: the dataset's, Rules.Seed (arrivals and order) and batch.Config.Seed (the
// server's mood). The same three give the same rows.
//
// # Servers of known capacity
//
// [Servers] are engines that saturate in different ways, each with a load of its own, an objective, and the capacity
// that is known by brute force: [Server.Scan] plays every load in question under many moods, and [Server.Capacity] is
// the largest load at which the mean over moods of the share of turns that meet the objective is what the objective
// asks for, and which no smaller load fails. The scans of [Servers] stand in testdata/capacity.json
// (go test ./replay/simserver/virtual -run Capacity -update makes them anew, which takes minutes); [Known] reads them.
package virtual
