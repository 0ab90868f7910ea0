// Command sdk is aws-sdk-go-v2 as a client that runs the steps of clients/steps.py: sdk BUCKET FOLDER
package main

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"runtime/debug"
	"sort"
	"strings"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/config"
	"github.com/aws/aws-sdk-go-v2/feature/s3/manager"
	"github.com/aws/aws-sdk-go-v2/service/s3"
	"github.com/aws/aws-sdk-go-v2/service/s3/types"
)

const (
	reads  = 3
	prefix = "aws-sdk-go/"
)

type client struct {
	ctx    context.Context
	s3     *s3.Client
	bucket string
}

func must[T any](value T, err error) T {
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	return value
}

func digest(content []byte) string {
	sum := sha256.Sum256(content)
	return hex.EncodeToString(sum[:])
}

func (c *client) read(name, span string) (string, error) {
	input := &s3.GetObjectInput{Bucket: &c.bucket, Key: aws.String(prefix + name)}
	if span != "" {
		input.Range = &span
	}
	output, err := c.s3.GetObject(c.ctx, input)
	if err != nil {
		return "", err
	}
	defer output.Body.Close()
	content, err := io.ReadAll(output.Body)
	return digest(content), err
}

func (c *client) readAll(name, span string) []string {
	var digests []string
	for range reads {
		digests = append(digests, must(c.read(name, span)))
	}
	return digests
}

func (c *client) isMissing(name string) bool {
	_, err := c.read(name, "")
	if missing := (*types.NoSuchKey)(nil); errors.As(err, &missing) {
		return true
	}
	must("", err)
	return false
}

func main() {
	ctx := context.Background()
	settings := must(config.LoadDefaultConfig(ctx))
	service := s3.NewFromConfig(settings, func(options *s3.Options) { options.UsePathStyle = true })
	bucket, folder := os.Args[1], os.Args[2]
	c := &client{ctx, service, bucket}
	result := map[string]any{"version": version()}

	result["range"] = c.readAll("table.bin", "bytes=5000000-5999999")
	result["odd"] = c.readAll("odd/a b+c=ä%41.bin", "")

	large, key := c.readAll("large.bin", ""), aws.String(prefix+"large.bin")
	file := must(os.Open(filepath.Join(folder, "large.bin")))
	must(manager.NewUploader(service).Upload(ctx, &s3.PutObjectInput{Bucket: &bucket, Key: key, Body: file}))
	fetched := manager.NewWriteAtBuffer(nil)
	must(manager.NewDownloader(service).Download(ctx, fetched, &s3.GetObjectInput{Bucket: &bucket, Key: key}))
	result["large"] = append(large, digest(fetched.Bytes()))

	var written []string
	key = aws.String(prefix + "written.bin")
	for _, name := range []string{"first", "second"} {
		content := must(os.ReadFile(filepath.Join(folder, name+".bin")))
		must(service.PutObject(ctx, &s3.PutObjectInput{Bucket: &bucket, Key: key, Body: bytes.NewReader(content)}))
		written = append(written, c.readAll("written.bin", "")...)
	}
	result["written"] = written

	copied, source := c.readAll("copied.bin", ""), bucket+"/"+*key
	to := aws.String(prefix + "copied.bin")
	must(service.CopyObject(ctx, &s3.CopyObjectInput{Bucket: &bucket, Key: to, CopySource: &source}))
	result["copied"] = append(copied, c.readAll("copied.bin", "")...)

	odd := aws.String(prefix + "odd/")
	page := must(service.ListObjectsV2(ctx, &s3.ListObjectsV2Input{Bucket: &bucket, Prefix: odd}))
	var listed []string
	for _, each := range page.Contents {
		listed = append(listed, strings.TrimPrefix(*each.Key, prefix))
	}
	sort.Strings(listed)
	result["listed"] = listed

	objects := &types.Delete{Objects: []types.ObjectIdentifier{{Key: key}}}
	must(service.DeleteObjects(ctx, &s3.DeleteObjectsInput{Bucket: &bucket, Delete: objects}))
	var deleted []bool
	for range reads {
		deleted = append(deleted, c.isMissing("written.bin"))
	}
	result["deleted"] = deleted
	fmt.Println(string(must(json.Marshal(result))))
}

func version() string {
	for _, module := range must(buildInfo()).Deps {
		if module.Path == "github.com/aws/aws-sdk-go-v2/service/s3" {
			return strings.TrimPrefix(module.Version, "v")
		}
	}
	return ""
}

func buildInfo() (*debug.BuildInfo, error) {
	info, ok := debug.ReadBuildInfo()
	if !ok {
		return nil, errors.New("built without modules")
	}
	return info, nil
}
