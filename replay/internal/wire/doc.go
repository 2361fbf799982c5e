// Package wire sends turns to a server and stamps what comes back.
//
// A [Client] talks to one server; a [Session] is one conversation with it; [Session.Do] sends a turn and
// fills the turn's row. Its client for HTTP/1.1 is lean: a request goes out by one writev (header, and the
// segments of the encoded history); the response is taken apart as it is pushed, piece by piece, from the read
// straight into the api package's stream. Nothing is kept or allocated, no deadline is moved and no
// stream waits for another between a chunk's recvmsg and its last stamp. HTTP/2 and proxies go through net/http's client
// into the same pipeline, with the reader's stamps.
//
// A connection's reading is begun before its request is written, so that an early refusal of a large request is seen.
// Three kinds of connection read in three ways:
//
//   - on Linux: by a stampconn.Poller, one goroutine for many sockets, which also takes apart the records of TLS;
//     the goroutine of a turn sleeps until the response has ended;
//   - elsewhere: by the turn's goroutine over stampconn.Conn;
//   - net/http's connections: by net/http.
//
// # What decided the design
//
// CPU of the client per chunk at 1,000 streams of 100 tokens with gaps of 50 ms, starts at once, the
// simulated server beside it on a machine of 2 cores (Linux 6.18, loopback; all at real-time priority
// because the machine had other work), two to four runs each, median error of TTFT under 0.02 ms in all):
//
//	wrk (Debian), for comparison                                5.0 to 6.9 us
//	a goroutine per stream, recvmsg in RawConn.Read's callback  10.6 to 11.3 us
//	an epoll loop that blocks in epoll_wait, pause of 200 us    9.2 to 10.4 us
//	the same, waited for by the runtime's poller, no pause      6.5 to 8.2 us
//
// About 5.5 us of each are the kernel's (the read, and the acknowledgement that it sends). A goroutine per
// stream pays for finding, waking and parking it, and for a recvmsg that says that there is no more, which
// an edge-triggered poller makes necessary; blocking in epoll_wait keeps the runtime's monitor busy. So
// the epoll loop it is, nested in the runtime's poller. net/http's client was left for its two goroutines, two
// buffers and several hand-overs per stream, behind which a stamp says when a goroutine was scheduled.
//
// Beside each other at 1,000 streams that start over 2 s on a machine with other work (cmd/internal/clientbench
// -over plain,tls,net-http,http2; error of TTFT p50 and p99, CPU of the client per chunk):
//
//	this client                    0.015 ms   0.05 ms   14.4 us
//	this client over TLS           0.024 ms   0.08 ms   16.7 us
//	net/http (through a proxy)     0.18 ms    6.2 ms    24.4 us
//	net/http's HTTP/2 over TLS     0.49 ms    18 ms     26.9 us
//
// TLS costs its records' opening, about 1 us, and what crypto/tls does around it; the memory of its connections is
// some 15 KB each.
package wire
