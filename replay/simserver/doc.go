// Package simserver is a simulated LLM server: real HTTP, a timing model, the dialects of real servers,
// faults on demand, and a log of the truth to hold a client against.
//
// # Engines
//
// There are two. The constant one, the default, gives exact times, which is what a client is held against: a request
// waits in a first-in first-out queue for one of [Config.Slots] slots. Blocks at the prompt's start that the prefix
// cache holds cost nothing; the other tokens take Base + uncached/Prefill. The first chunk of the answer leaves when
// the prefill ends, and each later one ChunkTokens*ITL after the one before, each gap varied by Jitter. All of these
// moments lie on an absolute schedule that starts at the request's arrival (or, if it had to queue, when
// its slot came free): a late wake-up delays one chunk and not the rest. However many run, a token takes the same time.
//
// At temperature 0 an answer is a function of the prompt, as far as its text and kind go; at any other one no two of a
// server are alike.
//
// The batched one (engine=batched, or gpu=h100 and others) does what real servers do: package batch tells how. Its
// steps follow on each other by an absolute schedule too.
//
// Prompts are cut into tokens ([Tokenize]) and the tokens into blocks whose hashes are chained, so that a block is
// known only together with everything before it.
//
// # Truth
//
// The log ([Config.Log], JSON lines, one [Truth] per request) has the moments at which the server
// received and wrote, in Unix nanoseconds. A client is matched to it by response id.
// A request stops counting as in flight before its last bytes are handed to the kernel, so a client that
// keeps to a limit can never be seen above it.
//
// # Use
//
// [New] gives a [Server]; [Server.Serve] answers on a listener with a lean HTTP/1.1 loop of its own (one
// write per chunk, 20,000 chunks a second on a fraction of a core); [Server.ServeHTTP] answers the same
// under net/http, for TLS, HTTP/2 and httptest. [Listen] is a listener in memory for testing/synctest.
// [Main] runs a server as a process of its own.
package simserver
