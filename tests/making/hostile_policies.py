"""Mutated policies and contracts for `sami adopt`, each from its number alone: `attempt(number, folder)`."""

import json
from collections import Counter

import numpy as np

from sami_runtime.adoption.adopt import adopt_in_process, read_policy
from sami_runtime.errors import SamiError
from tests.making import foreign, mutants

HISTORY = {"steps": 5, "first": "newest", "start": "repeat"}
POLICIES = (
    (foreign.feed_forward, {"last_action": {"slice": [6, 8], "kind": "applied"}, "clip": 10.0}),
    (foreign.recurrent, {"state": foreign.STATES}),
    (lambda: foreign.recurrent("GRU", batch_first=True), {"state": foreign.STATES[:1]}),
    (foreign.image_convolution, {"history": HISTORY}),
)
OF_BYTES = (mutants.flipped, mutants.relocated, mutants.lengths)
OF_MODELS = (
    *(mutants.weights_not_finite, mutants.another_operator, mutants.rewired, mutants.attributes, mutants.shapes),
    *(mutants.declared, mutants.external_weights, mutants.nested, mutants.nodes_gone_or_twice),
)
KINDS = ("contract", *(change.__name__ for change in (*OF_BYTES, *OF_MODELS)))


def attempt(number, folder):
    """Adopt a mutated policy or recipe; return the kind of mutation and the outcome."""
    draw = np.random.default_rng([number, 30])
    make, changes = POLICIES[number % len(POLICIES)]
    kind = number // len(POLICIES) % len(KINDS)
    model, document = make(), foreign.document(**changes)
    if kind == 0:
        document = mutants.other(document, draw)
    elif kind > len(OF_BYTES):
        OF_MODELS[kind - len(OF_BYTES) - 1](model, draw)
    data = model.SerializeToString()
    if 0 < kind <= len(OF_BYTES):
        data = OF_BYTES[kind - 1](data, draw)
    policy, contract = folder / "policy.onnx", folder / "my.json"
    policy.write_bytes(data)
    contract.write_text(json.dumps(document))
    try:
        adopt_in_process(read_policy(policy, contract), str(policy))
    except SamiError as error:
        return KINDS[kind], "refused" if "\n" not in str(error) else f"FOUND: several lines: {error}"
    except Exception as error:
        return KINDS[kind], f"FOUND: {type(error).__name__} {str(error)[:200]}"
    return KINDS[kind], "adopted"


def hold_for(count, folder):
    """Assert that each of `count` files is rejected with a one-line message, or adopted with its outputs compared."""
    outcomes, kinds, findings = Counter(), set(), []
    for number in range(count):
        kind, outcome = attempt(number, folder)
        kinds.add(kind)
        outcomes[outcome.partition(":")[0]] += 1
        if outcome.startswith("FOUND"):
            findings.append((number, kind, outcome))
    assert findings == []
    assert kinds == set(KINDS)
    assert min(outcomes["refused"], outcomes["adopted"]) > count / 20, outcomes  # or they do not reach that far
