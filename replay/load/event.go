package load

import "math"

// None stands for a moment that there is not.
const None = int64(math.MinInt64)

// A Task names one conversation of a run: a member of the tree that an entry of the schedule starts.
type Task struct {
	K      int64 // the entry
	Pass   int64 // its pass over the dataset
	Root   int32 // the dataset's row of the tree's root
	Row    int32 // and of this conversation
	Member int32 // its number in the tree, 0 for the root
	slot   int32
}

// What happened: the kinds of an [Event].
type EventKind uint8

const (
	Came     EventKind = iota // a moment came, perhaps one that Next told
	Prepared                  // N entries of the schedule, from its beginning, can be started (see Gate)
	Begun                     // a turn whose Start asked to be told has begun
	Ended                     // a turn that was started has ended
	Hold                      // no turn may start: the results cannot be written as fast as they come
	Go                        // turns may start again
	Stop                      // no turn starts any more, for Reason
)

// Event is what a [Scheduler] is told.
type Event struct {
	Kind    EventKind
	At      int64 // when, in nanoseconds of time under load; must not go back by more than actions need
	Task    Task
	Outcome Outcome
	Pause   Pause // Ended: before the conversation's next turn
	N       int64
	Reason  string
}

// Outcome is how a turn ended.
type Outcome uint8

// The outcomes.
const (
	OK       Outcome = iota
	Failed           // an error of the server or of the way to it
	Silent           // the same, but only time told: a limit passed
	Canceled         // the client gave it up
	Bad              // it was not sent, because the dataset's row cannot be made into a request
)

// ActionKind is what is to be done.
type ActionKind uint8

const (
	Start ActionKind = iota // send a turn's request
	Drop                    // the turns from Turn to the conversation's last are not sent: they become rows
	Cut                     // cut off the requests under way, for Reason
	End                     // the load is over, for Reason
)

// Action is what is to be done. Moments are of time under load.
type Action struct {
	Kind ActionKind
	Task Task
	Turn int32

	Scheduled int64 // when the turn was meant to go; in a Drop None if its time had not come
	Ready     int64 // when it could
	InFlight  int64 // how long before Ready it waited for MaxInFlight; negative without that limit
	Pause     Pause // before the turn; meaningless for a turn that begins a conversation
	First     bool  // it begins its conversation
	Warmup    bool
	Stage     int32 // -1 without stages
	WaitJoin  int64 // how long its joined conversations outlasted its own predecessor; negative without joins
	Joined    int32 // the member among them that decided the moment, -1 for none
	Tell      bool  // tell with Begun when the request begins: others start with it

	Shed   bool   // Drop: the limit of conversations was full
	Reason string // Drop, Cut, End: why
}

// Reasons why turns are dropped: the error kinds of not_reached rows. [Scheduler.Stop] has one for each end.
const (
	DropBudget      = "budget"              // the run's requests or its duration were used up
	DropDeadline    = "deadline"            // the run's deadline passed
	DropInterrupted = "interrupted"         // somebody stopped the run
	DropRunFailed   = "run_failed"          // the run ended by an error of its own
	DropWatchdog    = "watchdog"            // the run ended because nothing moved any more
	DropErrors      = "max_errors"          // the run gave the server up
	DropFailed      = "conversation_failed" // an earlier turn of the conversation failed
	DropParent      = "parent_not_reached"  // the turn of another conversation that starts this one did not start
	DropJoin        = "joined_failed"       // a conversation whose result the turn needs failed
	DropBad         = "bad_conversation"    // the dataset's row cannot be made into requests
	DropShed        = "shed"                // the limit of conversations was full
	CutGrace        = "grace"               // canceled: the turn outlasted the run's grace
	CutSuspended    = "suspended"           // canceled: the client did not run for a while, and the request did not survive it
)

// Reasons why a run ends, for RunMeta.Ended.
const (
	EndComplete    = "complete"
	EndRequests    = "requests"
	EndDuration    = "duration"
	EndDeadline    = "deadline"
	EndInterrupted = "interrupted"
	EndError       = "error"
	EndErrors      = "max_errors"
	EndWatchdog    = "watchdog"
)
