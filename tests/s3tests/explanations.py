"""Explanations of failures that a gateway with one identity has by design, and of tests that are flaky straight."""

from __future__ import annotations

import re

from s3tests.tables import Explanation


def _of(kind: str, reason: str, tests: str) -> Explanation:
    return Explanation(kind, re.compile(reason), frozenset(tests.split()))


EXPLANATIONS = (
    _of(
        "requests without a signature: the gateway would lend its role to whoever can reach it",
        r"AccessDenied.* The request is not signed\.|^assert 403 == 404$",
        """
        test_bucket_list_objects_anonymous test_bucket_listv2_objects_anonymous test_list_buckets_anonymous
        test_object_anon_put_write_access test_object_delete_key_bucket_gone test_object_raw_get
        test_object_raw_get_bucket_acl test_object_raw_get_bucket_gone test_object_raw_get_object_gone
        """,
    ),
    _of(
        "several users: the gateway sends all requests with one identity",
        r"ClientError not raised|'BucketAlreadyOwnedByYou' == 'BucketAlreadyExists'",
        """
        test_bucket_create_exists_nonowner test_bucket_policy_put_obj_acl test_bucket_policy_upload_part_copy
        test_object_copy_not_owned_bucket
        """,
    ),
    _of(
        "uploads by a form: their signature is for S3 itself, and the gateway answers 501",
        r"^assert 501 == 400\b",
        """
        test_post_object_condition_is_case_sensitive test_post_object_empty_conditions
        test_post_object_expires_is_case_sensitive test_post_object_invalid_content_length_argument
        test_post_object_invalid_date_format test_post_object_missing_conditions_list
        test_post_object_missing_content_length_argument test_post_object_missing_expires_condition
        test_post_object_missing_signature test_post_object_no_key_specified
        test_post_object_upload_size_below_minimum test_post_object_upload_size_limit_exceeded
        """,
    ),
    _of(
        "signatures of version 2: the gateway verifies them, and the store refuses them all",
        r"ClientError not raised|'RequestTimeTooSkewed' == 'AccessDenied'",
        """
        test_bucket_create_bad_date_before_epoch_aws2 test_bucket_create_bad_date_none_aws2
        test_object_create_bad_date_before_epoch_aws2 test_object_create_bad_date_none_aws2
        """,
    ),
    _of(
        "flaky straight: the order of tags is random",
        r"^AssertionError: assert \[\{'Key': ",
        "test_put_delete_tags",
    ),
    _of(
        "flaky straight: versions that are written while others are removed",
        r"assert not 'Versions' in ",
        "test_versioned_concurrent_object_create_and_remove",
    ),
)
