"""Tables on bursts: the thesis's claims about spikes, and costs with perfect foresight, next to simulated values."""

from __future__ import annotations

from collections.abc import Mapping

from burstcache_sim.report.table import Table
from burstcache_sim.thesis.bands import band
from burstcache_sim.thesis.bursts import Clairvoyant, SpikeCosts, published_costs, spike_costs, table_5_2_row
from burstcache_sim.thesis.published import LAMBDA_SHARE_PCT, OFFLINE_USD, TABLE_5_2, TABLE_A1, Workload
from burstcache_sim.thesis.samples import Samples, by_workload
from burstcache_sim.thesis.tables import workload_text


def table_5_2(fixed: Mapping[Workload, Samples]) -> Table:
    """Return the spikes per hour up to which a node costs more: printed, from printed counts, and over traces."""
    rows = []
    for row in TABLE_5_2:
        costs = _costs(row.figure, fixed)
        ours = [str(frequency) for frequency in table_5_2_row(row, TABLE_A1[row.figure])]
        spikes = [band(values).text(1) for values in (costs.spikes_self_hosted, costs.spikes_elasticache)]
        printed = (row.self_hosted, row.elasticache)
        cells = [cell for three in zip(printed, ours, spikes, strict=True) for cell in three]
        rows.append((row.figure, str(row.duration_s), *cells))
    header = ("figure", "spike [s]", "self-hosted, printed", "computed", "over traces")
    title = "Table 5.2: spikes an hour up to which the reactive system is cheaper"
    return Table(title, (*header, "ElastiCache, printed", "computed", "over traces"), tuple(rows))


def spikes(fixed: Mapping[Workload, Samples]) -> Table:
    """Return the thesis's numbers on spikes (section 5.5) next to their bands."""
    rows = []
    for row in TABLE_5_2:
        published, ours = published_costs(TABLE_A1[row.figure], row.duration_s), _costs(row.figure, fixed)
        low, high = LAMBDA_SHARE_PCT[row.figure]
        lambda_share = f"{low}" if low == high else f"{low} - {high}"
        pairs = (
            (f"{row.duration_s}", band(ours.duration_s).text(0)),
            (f"{float(published.to_perfect[0]):.2f}", band(ours.to_perfect).text(2)),
            (lambda_share, band(ours.lambda_share_pct).text(0)),
            (f"{float(published.running_pct[0]):.0f}", band(ours.running_pct).text(0)),
        )
        rows.append((row.figure, *(cell for pair in pairs for cell in pair)))
    named = ("duration [s]", "cost / perfect automation", "Lambda's share of the cost [%]", "layers run [% of it]")
    header = ("figure", *(cell for name in named for cell in (f"{name}, published", "over traces")))
    return Table("Section 5.5: the spikes", header, tuple(rows))


def claims(fixed: Mapping[Workload, Samples]) -> Table:
    """Return the share of traces that confirm the introduction's claim: about 95 % hits for less than a node hour."""
    rows = []
    for row in TABLE_5_2:
        costs = _costs(row.figure, fixed)
        shares = (costs.in_memory_pct >= 94.5, costs.spikes_self_hosted >= 1, costs.spikes_elasticache >= 1)
        rows.append((row.figure, band(costs.in_memory_pct).text(1), *(f"{100 * share.mean():.1f}" for share in shares)))
    header = ("figure", "in memory [%]", "at least 94.5 %", "cheaper than a node hour", "than an ElastiCache hour")
    note = "Share of the traces in which it holds [%]."
    return Table("Introduction: about 95 % from memory for less than a node hour", header, tuple(rows), note)


def clairvoyants(found: Mapping[Workload, Clairvoyant], fixed: Mapping[Workload, Samples]) -> Table:
    """Return the costs with perfect foresight, for the offline endpoint scheduler and for the exact optimum."""
    rows = []
    for workload, costs in found.items():
        figures = [experiment.figure for experiment in by_workload()[workload]]
        printed = " ".join(f"{OFFLINE_USD[figure]:g} ({figure})" for figure in figures if figure in OFFLINE_USD)
        policy = " ".join(f"{fixed[workload].by_figure[figure][:, -1].mean():.5f}" for figure in figures)
        ours = (band(values).text(5) for values in (costs.offline_usd, costs.optimum_usd))
        rows.append((workload_text(workload), printed or "-", *ours, policy))
    header = ("workload", "offline, published [USD]", "offline [USD]", "optimum [USD]", "the policy's means [USD]")
    return Table("Theoretical execution plans: all requests from memory, the future known", header, tuple(rows))


def _costs(figure: str, fixed: Mapping[Workload, Samples]) -> SpikeCosts:
    samples = next(samples for samples in fixed.values() if figure in samples.by_figure)
    return spike_costs(samples.by_figure[figure], samples.spans_us)
