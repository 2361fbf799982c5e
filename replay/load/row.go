package load

import "parley/schemas"

// Fill writes into a turn's row what its start says. shift is run time minus time under load.
func (a *Action) Fill(row *schemas.Request, x *Extent, shift int64) {
	scheduled, ready := a.Scheduled+shift, a.Ready+shift
	row.ScheduledNS, row.ReadyNS = &scheduled, &ready
	if a.InFlight >= 0 {
		row.InFlightNS = &a.InFlight
	}
	if !a.First {
		think, tool := float64(a.Pause.Think)/1e6, float64(a.Pause.Tool)/1e6
		if row.ThinkTimeMS = &think; tool >= 0 {
			row.ToolTimeMS = &tool
		}
	}
	if a.WaitJoin >= 0 {
		wait := float64(a.WaitJoin) / 1e6
		if row.WaitJoinMS = &wait; a.Joined >= 0 {
			id := x.ID(a.Task.Root, a.Joined)
			row.JoinedID = &id
		}
	}
	if a.Stage >= 0 {
		stage := int64(a.Stage)
		row.Stage = &stage
	}
	if a.Warmup {
		row.Phase = schemas.PhaseWarmup
	}
}

// Place writes into a row where its conversation, which has the row's identifier, stands in its tree.
func (x *Extent) Place(row *schemas.Request, t Task) {
	id := row.ConversationID
	if parent, turn, ok := x.Parent(t.Root, t.Member); ok {
		starter, at := x.ID(t.Root, parent), int64(turn)
		id = x.ID(t.Root, 0)
		row.ParentID, row.ParentTurn = &starter, &at
	}
	row.RootID = &id
}
