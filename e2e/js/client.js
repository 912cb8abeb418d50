// A gRPC client on Node.js whose target is resolved over xDS: `node client.js
// xds:///NAME`. It finds its management server in GRPC_XDS_BOOTSTRAP. It calls
// the standard health service every 10 ms and prints one line for each call:
// "ok" and the name that the backend puts into its response headers, or "error"
// with the status code and its message. It ends when its standard input does.
'use strict';

const grpc = require('@grpc/grpc-js');
const xds = require('@grpc/grpc-js-xds');

xds.register();

const target = process.argv[2];
if (!target) {
  console.error('usage: node client.js xds:///NAME');
  process.exit(2);
}
const bytes = (message) => message;
const client = new grpc.Client(target, grpc.credentials.createInsecure());

function call() {
  let backend = '(unnamed)';
  const options = { deadline: Date.now() + 5000 };
  const unary = client.makeUnaryRequest(
    '/grpc.health.v1.Health/Check', bytes, bytes, Buffer.alloc(0), new grpc.Metadata(), options,
    (error) => {
      console.log(error ? `error ${error.code} ${error.details.replaceAll('\n', ' ')}` : `ok ${backend}`);
    });
  unary.on('metadata', (headers) => {
    backend = headers.get('backend')[0] ?? backend;
  });
}

const timer = setInterval(call, 10);
process.stdin.resume();
process.stdin.on('end', () => {
  clearInterval(timer);
  client.close();
  process.exit(0);
});
