"""Repairs to how moto takes objects in."""

from __future__ import annotations

from typing import Any

from burstcache_local.moto.registry import repair


@repair
def objects_are_no_forms() -> None:
    """moto parses an object that has the type of a form, which is what curl says of data, and keeps nothing of it."""
    from moto.s3.responses import S3Response
    from werkzeug.datastructures import ImmutableMultiDict

    set_up = S3Response.setup_class

    def setup_class(self: S3Response, request: Any, *args: Any, **more: Any) -> None:
        if request.method == "PUT":
            request.get_data(cache=True)
            vars(request).update(form=ImmutableMultiDict(), files=ImmutableMultiDict())
        set_up(self, request, *args, **more)

    S3Response.setup_class = setup_class
