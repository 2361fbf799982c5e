// Package capacity finds the largest load at which a server meets its objectives. It is a pure machine: it says which
// run to make next ([Search.Next]), how long that has to go on ([Watch]), and what all of them say together
// ([Search.Answer]). It knows no clock, no file and no server; who drives it makes the runs.
//
// # What is looked for
//
// An objective is met at a load if the share of turns that miss it (of a percentile: the turns beyond the limit, which
// failed turns are too) is on average over the server's moods no larger than what it allows, 1 % for a p99. The
// capacity is the largest load at which all objectives are met, and which no smaller load fails.
//
// # How
//
// Loads double from the first until one fails, and then halve the gap in between. Then runs are repeated on both sides
// of where the limit seems to be, half the resolution away from it, until the interval is as narrow as that, which are
// the fresh runs that confirm it.
//
// A run is one observation of a server: it has the mood of its time. It comes down to one number y, 0 where the worst
// objective is just met and above where it is missed: 2(sqrt(share/allowed) - 1), whose error is nearly the same
// everywhere (Anscombe, Biometrika 35, 1948), or the logarithm of mean/limit. Its error within the run is from blocks of
// time; that between runs from repeated ones ([Search.noise]). Over all runs, y rises with the load: the fit is
// isotonic (pool adjacent violators), and the interval has the places at which the limit may be: those at which an
// isotonic fit that has to cross 0 there is not much worse than the best one (a likelihood ratio).
//
// A run ends early if its verdict is clear: if a confidence sequence for the share, by looks whose times grow by a
// quarter and that spend the error budget as 1/k^2, leaves out what is allowed. It does not end because its own error is
// small: a load that has just begun is lighter than it will be, as conversations are young and queues short, and near
// the limit that looks like a load that is held. In an open loop only a load that fails ends a run early.
package capacity
