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
// # Compared with vLLM
//
// vLLM 0.32.0 on a processor, with a random small model and 26 blocks of 128 tokens, served 2, 6 and 16 conversations
// of the chat preset at once without think time, answers of 120 tokens, 20 s each; beside it the batched engine with
// step=7.3ms&step_seq=500us&step_token=32us&base=9ms&block=128&cache_blocks=25&slots=16&budget=2048&jitter=0.2 (the machine
// was busy with other things, so what is to be compared is the shape: where the cliff is, and what happens there):
//
//	                       vLLM: 2       6      16     engine: 2       6      16
//	TTFT p50, ms              28.3     646   4,067          28.4   1,066   3,589
//	ITL p50, ms               7.84   11.31   12.39          8.28    9.23    9.28
//	output tokens/s            108     174     213           121     202     246
//	preemptions in the run       0       9      15             1      10      18
//	prompts found in cache    49 %    24 %     4 %          57 %    13 %     1 %
//
// With a cache of 8,192 blocks, and think times of up to a second, 2, 4, 8 and 12 at once had an ITL p50 of 8.5, 10.3,
// 16.1 and 20.9 ms at 113, 159, 225 and 243 tokens/s: ITL rises with the sequences, and the throughput levels off.
// Its twin (sim:?like=) could not be held to 15 % there: two runs of vLLM at 8 at once came to 225 and 289 tokens/s and a
// TTFT p95 of 165 and 111 ms, and the fit said so (the speed wandered by 35 and 21 %). What it met is in package
// likeness, on this engine.
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
