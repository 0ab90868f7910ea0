"""Hold an endpoint of S3's protocol against s3tests, the conformance tests of Ceph (github.com/ceph/s3-tests, MIT)."""
