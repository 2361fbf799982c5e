// Package wire sends turns to a server and stamps what comes back.
//
// A [Client] talks to one server; a [Session] is one conversation with it; [Session.Do] sends a turn and
// fills the turn's row. Its client for HTTP/1.1 is lean: a request goes out by one writev (header, and the
// segments of the encoded history), the response is taken apart as it is pushed, piece by piece, from a read
// loop that runs inside the poller's callback, straight into the api package's stream. No data is kept, nothing
// is allocated, no deadline is moved and no lock is taken between a chunk's recvmsg and its last stamp.
// HTTP/2 and proxies go through net/http's client into the same pipeline, with the reader's stamps.
//
// # What decided the design
//
// Measured on a machine of 2 cores (Linux 6.18, loopback, 1,000 streams of 100 chunks with gaps of 50 ms,
// starts at once, server in a process of its own), CPU of the client per chunk: wrk 8.3 to 9.4 us; one
// goroutine per stream with recvmsg in the callback of syscall.RawConn's Read 9.0 to 9.5 us; an epoll loop
// of our own on a locked thread 8.8 to 8.9 us. About 7.5 us of each are the kernel's (the read itself, and the
// acknowledgement that it sends). An own loop would save 0.5 us in 9 and cost a second way to wait, write
// and close; a goroutine per stream stays. net/http's client was left because of its two goroutines, two
// buffers and several hand-overs per stream, behind which a stamp says when a goroutine was scheduled.
package wire
