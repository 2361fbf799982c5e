package analyze

// Moment is what latencies count from.
type Moment string

// The moments: the first byte handed to the kernel, the attempt's start (before it had a connection: what
// other clients call TTFT), and the moment that the schedule asked for (free of coordinated omission).
const (
	FromSent      Moment = "sent"
	FromStart     Moment = "start"
	FromScheduled Moment = "scheduled"
)
