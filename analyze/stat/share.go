package stat

// EffectiveTrials gives how many independent trials the yes-or-no outcomes of a run count for (values of 1 and
// 0): fewer than there are where those of one conversation, or of one time, were alike, as those of a server
// that failed for a while. Where all came out the same there is nothing to see that by, and each counts.
func EffectiveTrials(in Sample, w Window) float64 {
	n := float64(len(in.Values))
	var yes float64
	for _, v := range in.Values {
		yes += v
	}
	if yes == 0 || yes == n {
		return n
	}
	var s Scratch
	cluster, clusters := s.renumber(in.Cluster)
	byConversation, byBlock := countParts(eachOf(in.Values, cluster, s.blocks(in.Moments, w)), len(in.Values), clusters, []float64{0.5})
	byTime := byBlock.join(shortBlocks)
	return min(n, byConversation.effective()[0], byTime.effective()[0])
}
