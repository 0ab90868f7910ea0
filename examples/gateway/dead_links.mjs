// The dead links that a web server got most requests for, from a list in S3. The endpoint makes it read from a cache.
import { GetObjectCommand, S3Client } from "@aws-sdk/client-s3";

const s3 = new S3Client({ forcePathStyle: true });

async function deadLinks(bucket) {
  const { Body } = await s3.send(new GetObjectCommand({ Bucket: bucket, Key: "not-found.txt" }));
  const times = new Map();
  for (const path of (await Body.transformToString()).split("\n")) {
    if (path) times.set(path, (times.get(path) ?? 0) + 1);
  }
  return [...times].sort((one, other) => other[1] - one[1]).slice(0, 3);
}

for (const [path, times] of await deadLinks(process.argv[2])) {
  console.log(`${String(times).padStart(4)} ${path}`);
}
