// aws-sdk-js v3 as a client that runs the steps of clients/steps.py: node client.mjs BUCKET FOLDER
import { createHash } from "node:crypto";
import { createReadStream, createWriteStream } from "node:fs";
import { readFile } from "node:fs/promises";
import { createRequire } from "node:module";
import { pipeline } from "node:stream/promises";

import {
  CopyObjectCommand,
  DeleteObjectsCommand,
  GetObjectCommand,
  ListObjectsV2Command,
  NoSuchKey,
  PutObjectCommand,
  S3Client,
} from "@aws-sdk/client-s3";
import { Upload } from "@aws-sdk/lib-storage";

const READS = 3;
const [Bucket, folder] = process.argv.slice(2);
const s3 = new S3Client({ forcePathStyle: true });
const digest = (content) => createHash("sha256").update(content).digest("hex");
const key = (name) => `aws-sdk-js/${name}`;

async function read(name, Range) {
  const { Body } = await s3.send(new GetObjectCommand({ Bucket, Key: key(name), Range }));
  return digest(await Body.transformToByteArray());
}

async function reads(name, Range) {
  const digests = [];
  for (let i = 0; i < READS; i++) digests.push(await read(name, Range));
  return digests;
}

async function isMissing(name) {
  try {
    await read(name);
    return false;
  } catch (error) {
    if (error instanceof NoSuchKey) return true;
    throw error;
  }
}

const result = { version: createRequire(import.meta.url)("@aws-sdk/client-s3/package.json").version };
result.range = await reads("table.bin", "bytes=5000000-5999999");
result.odd = await reads("odd/a b+c=ä%41.bin");
result.large = await reads("large.bin");
const large = { Bucket, Key: key("large.bin") };
await new Upload({ client: s3, params: { ...large, Body: createReadStream(`${folder}/large.bin`) } }).done();
const { Body } = await s3.send(new GetObjectCommand(large));
await pipeline(Body, createWriteStream(`${folder}/fetched`));
result.large.push(digest(await readFile(`${folder}/fetched`)));
result.written = [];
for (const file of ["first", "second"]) {
  const content = await readFile(`${folder}/${file}.bin`);
  await s3.send(new PutObjectCommand({ Bucket, Key: key("written.bin"), Body: content }));
  result.written.push(...(await reads("written.bin")));
}
result.copied = await reads("copied.bin");
const CopySource = `${Bucket}/${key("written.bin")}`;
await s3.send(new CopyObjectCommand({ Bucket, Key: key("copied.bin"), CopySource }));
result.copied.push(...(await reads("copied.bin")));
const { Contents } = await s3.send(new ListObjectsV2Command({ Bucket, Prefix: key("odd/") }));
result.listed = Contents.map((each) => each.Key.slice(key("").length)).sort();
await s3.send(new DeleteObjectsCommand({ Bucket, Delete: { Objects: [{ Key: key("written.bin") }] } }));
result.deleted = [];
for (let i = 0; i < READS; i++) result.deleted.push(await isMissing("written.bin"));
console.log(JSON.stringify(result));
