// Package stat has the statistics of parley, without files and rows: values in, numbers out.
//
// Exact quantiles and histograms of bounded error; what the values of one run say of the server in the long
// run (blocks of time and conversations, relaxation time, effective sizes, one-sided bounds); what several
// runs say (paired, Welch, Holm); warm-up cuts and tests for a steady level; censored times.
//
// A run is one observation of a server. Within a run time is the unit; between runs, the run. How far the
// intervals and tests hold what they promise is measured in ../STATISTICS.md.
package stat
