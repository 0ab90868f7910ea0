"""Repairs to how moto's state machine interpreter evaluates expressions and passes values."""

from __future__ import annotations

import hashlib
import json
import uuid
from typing import Any

from burstcache_local.moto.registry import repair

_INTERPRETER = "moto.stepfunctions.parser"


def replace_everywhere(name: str, value: Any) -> None:
    """Replace a name in every module of the interpreter that has imported it."""
    import sys

    for module_name, module in list(sys.modules.items()):
        if module_name.startswith(_INTERPRETER) and hasattr(module, name):
            setattr(module, name, value)


@repair
def jsonata_is_evaluated() -> None:
    """moto left out the evaluator, which is a bridge to Java where its code comes from."""
    import jsonata as evaluator
    from moto.stepfunctions.parser.asl.jsonata import jsonata

    def digest(value: str, algorithm: str = "SHA-256") -> str:
        return hashlib.new(algorithm.replace("-", "").lower(), value.encode()).hexdigest()

    def evaluate(text: str) -> Any:
        expression = evaluator.Jsonata.jsonata(text)
        expression.register_lambda("uuid", lambda: str(uuid.uuid4()))
        expression.register_lambda("hash", digest)
        return expression.evaluate(None)

    jsonata._eval_jsonata = evaluate


@repair
def hash_and_uuid_are_functions() -> None:
    """moto declares $hash and $uuid so that they yield a text that says they are not supported."""
    from moto.stepfunctions.parser.asl.component.intrinsic import jsonata

    for name in ("$hash", "$uuid"):
        jsonata._DECLARATION_BY_VARIABLE_REFERENCE.pop(name, None)


@repair
def text_variables_are_escaped() -> None:
    """moto pastes a text variable between quotes as it is: one that holds a quote breaks the expression."""

    def encode(bindings: dict[str, Any]) -> str:
        return "".join(f"{name}:={json.dumps(value, default=str)};" for name, value in bindings.items())

    replace_everywhere("encode_jsonata_variable_declarations", encode)


@repair
def failed_expressions_have_their_error_name() -> None:
    """moto reports an expression that cannot be evaluated as States.Runtime; AWS as States.QueryEvaluationError."""
    from moto.stepfunctions.parser.api import EvaluationFailedEventDetails, HistoryEventType
    from moto.stepfunctions.parser.asl.component.common.error_name.failure_event import (
        FailureEvent,
        FailureEventException,
    )
    from moto.stepfunctions.parser.asl.component.common.error_name.states_error_name import StatesErrorName
    from moto.stepfunctions.parser.asl.component.common.string.string_expression import StringJSONata
    from moto.stepfunctions.parser.asl.eval.event.event_detail import EventDetails

    evaluate = StringJSONata._eval_body
    error_name = StatesErrorName.from_name("States.QueryEvaluationError")

    def eval_body(self: Any, env: Any) -> None:
        try:
            evaluate(self, env)
        except FailureEventException:
            raise
        except Exception as error:
            cause = f"The JSONata expression '{self.expression}' failed: {error}"
            details = EvaluationFailedEventDetails(cause=cause, error=error_name.error_name)
            event = FailureEvent(
                env=env,
                error_name=error_name,
                event_type=HistoryEventType.EvaluationFailed,
                event_details=EventDetails(evaluationFailedEventDetails=details),
            )
            raise FailureEventException(failure_event=event) from error

    StringJSONata._eval_body = eval_body


@repair
def texts_are_evaluated_once() -> None:
    """moto evaluates an expression that yields a text again to ask for its type: twice the CPU, and two $uuid()."""
    from moto.stepfunctions.parser.asl.jsonata import validations

    validations._validate_string_output = lambda env, expression, rich_jsonata_expression: None
