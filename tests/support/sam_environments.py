"""Program for SAM CLI's Python that prints a built template's functions and environments as `sam local invoke` does.

Arguments: the template, the file for `--env-vars` and the region. Prints JSON with each function's code, handler, time
limit [s], memory [MB] and environment, by logical id.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path


def main(template: str, env_vars: str, region: str) -> None:
    """Print the functions as JSON."""
    from samcli.commands.local.lib.local_lambda import LocalLambdaRunner
    from samcli.lib.providers.sam_function_provider import SamFunctionProvider
    from samcli.lib.providers.sam_stack_provider import SamLocalStackProvider

    stacks, _ = SamLocalStackProvider.get_stacks(template_file=template)
    provider = SamFunctionProvider(stacks)
    overrides = json.loads(Path(env_vars).read_text())
    runner = LocalLambdaRunner(None, provider, ".", ".", aws_region=region, env_vars_values=overrides)
    functions = {
        function.name: {
            "code": function.codeuri,
            "handler": function.handler,
            "timeout_s": function.timeout,
            "memory_mb": function.memory,
            "variables": runner._make_env_vars(function).resolve(),
        }
        for function in provider.get_all()
    }
    print(json.dumps(functions))


if __name__ == "__main__":
    main(*sys.argv[1:])
