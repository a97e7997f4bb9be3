"""Train the hopper filter that comes with the package, `bounce` of `config/hopper_filters.json`: half an hour at most.

    python -m benchmarks.hopper.hopper_shipped

Simulated robots of the scenario `hardware` that no test or table has: hops of 0.3 to 5 m, changed every 2 to 8 s, and
of 1 to 4 m, changed every 12 s.
"""

from __future__ import annotations

from hopper_estimation.configuration import HopperConfiguration
from hopper_estimation.filter_model import DEFAULT_FILE, FilterModel, load_filters
from hopper_estimation.filter_training import SearchSettings, train_filter
from hopper_estimation.training_trials import trial_of
from onboard_estimation.evaluation.simulated import simulated_recording
from onboard_estimation.resources import resource
from onboard_estimation.robots import find_robot

FORM = "bounce"
SEEDS = {"varied": range(900_200, 900_216), "mixed": range(900_216, 900_220)}
DURATION_S = 46.0
SEARCH_SEEDS = (0, 1, 2)


def main() -> None:
    """Train, and put the result beside the filters that are there."""
    configuration, robot = HopperConfiguration(), find_robot("hopper")
    trials = [
        trial_of(
            configuration,
            f"{variant}, seed {seed}",
            simulated_recording(robot, configuration, "hardware", variant, DURATION_S, seed),
        )
        for variant, seeds in SEEDS.items()
        for seed in seeds
    ]
    hops = sum(len(trial.hops.cycles) for trial in trials)
    print(f"{len(trials)} robots, {hops} hops", flush=True)
    settings = SearchSettings(seeds=SEARCH_SEEDS)
    found = train_filter(
        configuration,
        FORM,
        trials,
        settings,
        lambda one: print(f"seed {one.seed}, generation {one.generation}: {one.best_cost:.4f}", flush=True),
    )
    path = resource(DEFAULT_FILE)
    there = load_filters(path)
    best = found.search.best
    about = {
        "cost": best.cost,
        "individuals": settings.individuals,
        "generations": settings.generations,
        "seeds": list(SEARCH_SEEDS),
        "best_seed": best.seed,
        "hops": hops,
        "data": f"simulated: scenario hardware, seeds {SEEDS['varied'][0]} to {SEEDS['mixed'][-1]}",
    }
    filters = {FORM: about, **{name: one for name, one in there.training.get("filters", {}).items() if name != FORM}}
    entries = {FORM: found.entry, **{name: one for name, one in there.entries.items() if name != FORM}}
    FilterModel(entries, {**there.training, "filters": filters}).save(path)
    print(f"{path}: cost {best.cost:.4f} with seed {best.seed}")


if __name__ == "__main__":
    main()
