"""Every data set of the library: made by seed, scored, and kept from evaluating what a model wrote."""

import ast
import inspect
import json
import pkgutil
from collections.abc import Iterator
from importlib import import_module
from typing import Any

import pytest

from gymd.sdk.generate import GenerateError
from gymservers.resources.reasoning_gym.expressions import (
    NotAFormula,
    check_formula,
    integer_formula,
    literal,
)
from gymservers.resources.reasoning_gym.generate import Options, choices, generate
from gymservers.resources.reasoning_gym.library import DATASETS, MIX, DatasetSpec, create_dataset, names
from gymservers.resources.reasoning_gym.scoring import WITHOUT_ANSWER, score
from gymservers.resources.reasoning_gym.verdicts import Scored

# A package that the library needs leaves a file open.
pytestmark = pytest.mark.filterwarnings(
    "ignore::ResourceWarning", "ignore::pytest.PytestUnraisableExceptionWarning"
)

CATEGORIES = {
    "algebra": 6,
    "algorithmic": 34,
    "arc": 3,
    "arithmetic": 18,
    "code": 2,
    "cognition": 7,
    "games": 17,
    "geometry": 2,
    "graphs": 6,
    "induction": 2,
    "logic": 7,
    "probability": 1,
}
GARBAGE = ["", "garbage", "-7.25", "[]", '{"a": [1]}', "x" * 500, "None", "1/0", "é\x00", "((((", "-1e999"]


def rows_of(options: dict[str, Any]) -> list[dict[str, Any]]:
    """The rows as they are read back from the file."""
    return [json.loads(json.dumps(row)) for row in generate(Options.model_validate(options))]


def scored(row: dict[str, Any], answer: str) -> Scored:
    verdict = score(row["question"], row["answer"], row["metadata"], answer)
    assert isinstance(verdict, Scored), (row["metadata"]["source_dataset"], verdict)
    assert 0.0 <= verdict.value <= 1.0
    return verdict


@pytest.mark.parametrize("category", CATEGORIES)
def test_every_data_set_is_made_and_scored(category: str) -> None:
    members = [name for name in names() if DATASETS[name][0].__module__.split(".")[1] == category]
    assert len(members) == CATEGORIES[category]
    for name in members:
        options = {"task": name, "size": 2, "seed": 1}
        rows = rows_of(options)
        assert rows == rows_of(options), name
        for row in rows:
            assert row["metadata"]["source_dataset"] == name
            assert row["responses_create_params"]["input"] == [{"role": "user", "content": row["question"]}]
            assert (row["answer"] is None) == (name in WITHOUT_ANSWER), name
            if row["answer"] is not None:
                assert scored(row, row["answer"]) == Scored(1.0), name
            for answer in GARBAGE:
                assert scored(row, answer).value < 1.0, (name, answer)


def test_these_are_all() -> None:
    assert len(names()) == sum(CATEGORIES.values()) == 105
    assert choices()["category"] == sorted(CATEGORIES)
    assert choices()["task"] == ["all", *names()]


def test_what_solves_the_puzzles_without_an_answer() -> None:
    (colours,) = rows_of({"task": "graph_color", "size": 1})
    assert scored(colours, json.dumps(colours["metadata"]["possible_answer"])).value == 1.0
    (cube,) = rows_of({"task": "rubiks_cube", "size": 1})
    assert scored(cube, cube["metadata"]["example_correct_answer"]).value == 1.0
    (logic,) = rows_of({"task": "propositional_logic", "size": 1})
    assert scored(logic, logic["metadata"]["example_answer"]).value == 1.0


# Generation.


def test_a_mix_is_the_librarys_own() -> None:
    tasks = ["chain_sum", "maze", "gcd"]
    config = {"maze": {"max_grid_size": 5}}
    specs = [DatasetSpec(name, 4.0 if name == "gcd" else 1.0, config.get(name, {})) for name in tasks]
    own = create_dataset(MIX, size=20, seed=5, datasets=specs)
    rows = rows_of({"task": tasks, "size": 20, "seed": 5, "weights": {"gcd": 4}, "config": config})
    assert [row["question"] for row in rows] == [own[index]["question"] for index in range(20)]
    drawn = [row["metadata"]["source_dataset"] for row in rows]
    assert set(drawn) == set(tasks)
    assert drawn.count("gcd") > 8
    for row in rows:
        expected = {"max_grid_size": 5} if row["metadata"]["source_dataset"] == "maze" else None
        assert row["metadata"].get("dataset_config") == expected


def test_tasks_and_categories_add_up_and_a_system_message_comes_first() -> None:
    options = {"task": " gcd , lcm", "category": ["probability"], "size": 30, "system": "Think."}
    rows = rows_of(options)
    assert {row["metadata"]["source_dataset"] for row in rows} == {"gcd", "lcm", "coin_flip"}
    assert rows[0]["responses_create_params"]["input"][0] == {"role": "system", "content": "Think."}


@pytest.mark.parametrize(
    ("options", "message", "hint"),
    [
        ({}, "no task", "task=all"),
        ({"task": ","}, "no task", "task=all"),
        ({"task": "chain_sun"}, "no task 'chain_sun'", "chain_sum"),
        ({"task": MIX}, "no task 'composite'", ""),
        ({"category": "game"}, "no category 'game'", "games"),
        ({"task": "gcd", "weights": {"gdc": 2}}, "weights: there is no task 'gdc'", "gcd"),
        ({"task": "gcd", "config": {"lcm": {}}}, "config: there is no task 'lcm'", ""),
        ({"task": "gcd", "config": {"gcd": {"min_number": 1}}}, "no key 'min_number'", "min_numbers"),
        ({"task": "gcd", "config": {"gcd": {"zzz": 1}}}, "no key 'zzz'", "min_numbers"),
        ({"task": "gcd", "config": {"gcd": {"seed": 1}}}, "seed holds for all", "--seed"),
        ({"task": "gcd", "config": {"gcd": {"min_numbers": 0}}}, "refuses it", "Correct"),
    ],
)
def test_options_that_cannot_be_followed(options: dict[str, Any], message: str, hint: str) -> None:
    with pytest.raises(GenerateError) as caught:
        next(iter(generate(Options.model_validate(options))))
    assert message in str(caught.value)
    assert hint in caught.value.hint


# Answers are data. Where the library evaluates text, and why that is harmless.
EVALUATIONS = {
    # What a model wrote: guarded by scoring.py.
    "algebra.intermediate_integration.score_answer",
    "algebra.polynomial_multiplication.score_answer",
    "algebra.simple_integration.score_answer",
    "algorithmic.binary_matrix.score_answer",
    "algorithmic.number_sorting.score_answer",
    "algorithmic.spiral_matrix.score_answer",
    "algorithmic.string_insertion.score_answer",
    "arithmetic.bitwise_arithmetic.verify_solution",
    "games.countdown.score_answer",
    "games.n_queens.score_answer",
    "games.puzzle24.score_answer",
    # What the library itself made or ships, while it makes tasks.
    "arithmetic.basic_arithmetic.eval_floordiv",
    "arithmetic.bitwise_arithmetic.generate_problem",
    "arithmetic.gsm_symbolic.generators_00_49.generate_32",
    "arithmetic.gsm_symbolic.generators_00_49.generate_example",
    "arithmetic.gsm_symbolic.generators_50_99.generate_69",
    "arithmetic.gsm_symbolic.generators_50_99.generate_from_variables",
    "code.bf.compile_bfit_code_to_bf",
    "code.codeio._generate_io_pair",
    # A parser of its own that is called so.
    "logic.propositional_logic.from_string",
    "logic.propositional_logic.parse_expr",
}
EVALUATORS = {
    "eval",
    "exec",
    "compile",
    "parse_expr",
    "sympify",
    "S",
    "parse_latex",
    "__import__",
    "lambdify",
}


def evaluations() -> Iterator[str]:
    package = import_module("reasoning_gym")
    for info in pkgutil.walk_packages(package.__path__, "reasoning_gym."):
        if "contrib" in info.name or "rearc_utils" in info.name:
            continue
        tree = ast.parse(inspect.getsource(import_module(info.name)))
        for function in ast.walk(tree):
            if isinstance(function, ast.FunctionDef) and any(map(is_evaluation, ast.walk(function))):
                yield f"{info.name.removeprefix('reasoning_gym.')}.{function.name}"


def is_evaluation(node: ast.AST) -> bool:
    if not isinstance(node, ast.Call):
        return False
    if isinstance(node.func, ast.Attribute):
        return node.func.attr in EVALUATORS and not (
            isinstance(node.func.value, ast.Name) and node.func.value.id == "re"
        )
    return isinstance(node.func, ast.Name) and node.func.id in EVALUATORS


def test_no_scorer_evaluates_answers_unguarded() -> None:
    assert set(evaluations()) == EVALUATIONS


@pytest.mark.parametrize(
    "place", ["algorithmic.binary_matrix", "algorithmic.spiral_matrix", "games.n_queens"]
)
def test_evaluated_answers_are_literals(place: str) -> None:
    assert vars(import_module(f"reasoning_gym.{place}"))["eval"] is literal


FORMULAS = """\
x**2/2 + C
-3*x*y + 7
exp(x)*sin(2*x)
log(Abs(x)) + sqrt(2)
1.5e3 * .5
x^2
5!
3 // 2 % 7
0x1f
x # note
alpha_1*theta
10**100
2**(x+1)
1_000
f(x)
1e300 + 2.5E-7 + 0x1e99999999
pow(2, 10) + Integer(3)**abs(-2)
E**x + pi*r**2
""".splitlines()
NO_FORMULAS = """\
x.y
().__class__
__import__('os')
exec(1)
eval(x)
open(x)
input()
print(1)
getattr(x, y)
lambda: 1
[1]
{1}
'a'
"a"
f"{x}"
x = 1
x := 1
x; y
x if y else z
import os
sympify(x)
S(x)
lambdify(x, y)
preview(x)
test()
plot(x)
9**9**9
2**(10**9)
9**9**9*x
pow(9,pow(9,9))
Integer(9)**Integer(9)**9
1e999999999
1.5E-999999999
2*1_0e1_000_000j
(9!)**9
@x
ｅｘｅｃ(1)
__x
(
1 + (2
$
\\x
""".splitlines()


@pytest.mark.parametrize("text", FORMULAS)
def test_formulas(text: str) -> None:
    check_formula(text)


@pytest.mark.parametrize("text", NO_FORMULAS)
def test_what_is_no_formula(text: str) -> None:
    with pytest.raises(NotAFormula):
        check_formula(text)


def test_variables_may_have_any_name() -> None:
    with pytest.raises(NotAFormula):
        check_formula("S**2")
    check_formula("S**2", {"S"})


def test_long_and_deep_texts_are_read_or_refused() -> None:
    check_formula("+".join(["x"] * 200))
    check_formula("-" * 50_000 + "1")
    for text in ("(" * 100_000, "2**" * 5_000 + "1"):
        with pytest.raises(NotAFormula):
            check_formula(text)


def test_formulas_of_integers() -> None:
    assert integer_formula("((0x1F + 0x2) << 2) * -3") == -396
    for text in ("__import__('os')", "a.b", "print(1)", "'a'", "f"):
        with pytest.raises((NotAFormula, NameError)):
            integer_formula(text)
