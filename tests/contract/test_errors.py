"""errors.proto against gymd.errors, and every reason against the code that raises it."""

import ast
import re

import grpc

from gymapi.v1.errors_pb2 import ErrorReason, ErrorStatus
from gymd.errors import REASON_CODES, error, from_status_message, to_status_message
from tests.contract.sources import ROOT, Module, modules

PREFIX = "ERROR_REASON_"

# In the contract, and raised by nothing yet. A reason leaves this list when its feature arrives.
_VALUE = re.compile(r"((?:^ *//.*\n)+)^ *ERROR_REASON_(\w+) = (\d+);", re.M)


def commented_codes() -> dict[str, str]:
    """Reason -> the status code by which its comment begins."""
    text = (ROOT / "protos/gymapi/v1/errors.proto").read_text(encoding="utf-8")
    codes = {}
    for comment, name, number in _VALUE.findall(text):
        if int(number):
            codes[name] = comment.strip().removeprefix("//").strip().partition(".")[0]
    return codes


def mentioned_strings(module: Module) -> set[str]:
    """String constants of a module, without those it only compares with or looks up."""
    compared = {
        id(inner) for node in ast.walk(module.tree) for part in _looked_up(node) for inner in ast.walk(part)
    }
    return {
        node.value
        for node in ast.walk(module.tree)
        if isinstance(node, ast.Constant) and isinstance(node.value, str) and id(node) not in compared
    }


def _looked_up(node: ast.AST) -> list[ast.AST]:
    if isinstance(node, ast.Compare):
        return [node]
    if isinstance(node, ast.match_case):
        return [node.pattern]
    if isinstance(node, ast.Dict):  # advice by reason; a table from status to reason has it as its value
        return [key for key in node.keys if key is not None]
    return []


def raised_reasons() -> set[str]:
    """Reasons that some module outside the table itself hands to an error."""
    found: set[str] = set()
    for module in modules():
        if not module.name.startswith("gymapi"):
            strings = mentioned_strings(module)
            if module.name == "gymd.errors":  # there, only what stands in a call of error()
                strings = _error_calls(module)
            found |= strings & set(REASON_CODES)
    return found


def _error_calls(module: Module) -> set[str]:
    return {
        node.args[0].value
        for node in ast.walk(module.tree)
        if isinstance(node, ast.Call)
        and isinstance(node.func, ast.Name)
        and node.func.id == "error"
        and node.args
        and isinstance(node.args[0], ast.Constant)
        and isinstance(node.args[0].value, str)
    }


def test_every_reason_has_the_code_of_its_comment() -> None:
    numbers = {name: code.value[0] for name, code in grpc.StatusCode.__members__.items()}
    assert {name: numbers[code] for name, code in commented_codes().items()} == REASON_CODES


def test_the_enum_and_the_table_name_the_same_reasons() -> None:
    names = {name.removeprefix(PREFIX) for name, number in ErrorReason.items() if number}
    assert names == set(REASON_CODES)


def test_every_reason_is_raised_somewhere() -> None:
    assert set(REASON_CODES) - raised_reasons() == set()


def test_a_reason_of_a_newer_peer_reads_as_its_code_says() -> None:
    failure = from_status_message(ErrorStatus(code=14, reason=9999, message="later"))  # type: ignore[arg-type]
    assert failure.reason_name == "PEER_UNREACHABLE"
    assert to_status_message(failure).reason == 9999


def test_every_reason_survives_the_way_through_a_frame() -> None:
    for reason, code in REASON_CODES.items():
        sent = error(reason, f"text of {reason}", retry_delay=1.5, server="x", count=3)
        back = from_status_message(to_status_message(sent))
        assert (back.code, back.reason_name, back.message) == (code, reason, f"text of {reason}")
        assert back.metadata == {"server": "x", "count": "3"}
        assert back.retry_delay == 1.5
        assert type(back) is type(sent)
