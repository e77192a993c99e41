// A server that speaks S3: node server.mjs PORT FOLDER BUCKET
import S3rver from "s3rver";

const [port, directory, bucket] = process.argv.slice(2);
const server = new S3rver({
  port: Number(port),
  address: "127.0.0.1",
  directory,
  silent: true,
  configureBuckets: [{ name: bucket }],
});
await server.run();
