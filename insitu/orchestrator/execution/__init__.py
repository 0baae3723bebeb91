"""One trial on one node: cluster (the only user of ray), agent, sandbox, sampler, levels verified."""
