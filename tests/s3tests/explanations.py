"""Explanations of tests that an endpoint with one identity cannot pass, by patterns of their names."""

from __future__ import annotations

_ANONYMOUS = "a request without a signature: the gateway would lend its role to whoever can reach it"

EXPLANATIONS = {
    "test_bucket_list*_objects_anonymous": _ANONYMOUS,
    "test_object_anon_put_write_access": _ANONYMOUS,
    "test_object_delete_key_bucket_gone": _ANONYMOUS,
    "test_object_raw_get": _ANONYMOUS,
    "test_object_raw_get_*_gone": _ANONYMOUS,
    "test_object_raw_get_bucket_acl": _ANONYMOUS,
}
