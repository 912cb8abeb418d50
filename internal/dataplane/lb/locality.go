package lb

// LocalityShare is the effective weight of a locality (LB-11): its weight,
// lowered when the overprovisioned share of its usable hosts is under 100 %.
// Pure.
func LocalityShare(weight uint32, usable, hosts, excluded int, overprovisioning uint32) float64 {
	if hosts <= excluded {
		return 0
	}
	available := float64(overprovisioning) / 100 * float64(usable) / float64(hosts-excluded)
	return float64(weight) * min(1, available)
}
