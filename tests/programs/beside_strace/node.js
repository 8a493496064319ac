// Files, a server, a client and children.
const fs = require('fs'), http = require('http'), cp = require('child_process'), os = require('os');
fs.writeFileSync('x', 'hello'); console.log(fs.readFileSync('x', 'utf8'), fs.statSync('x').size, os.cpus().length);
fs.mkdirSync('d', {recursive: true}); fs.renameSync('x', 'd/y'); console.log(fs.readdirSync('d'));
cp.execFileSync('true'); cp.exec('echo hi', (e, out) => console.log(out));
const s = http.createServer((q, r) => { fs.readFile('d/y', (e, b) => r.end(b)); });
s.listen(0, '127.0.0.1', () => { http.get({port: s.address().port, host: '127.0.0.1'}, r => { r.on('data', d => console.log('' + d)); r.on('end', () => { s.close(); }); }); });
setTimeout(() => fs.promises.rm('d', {recursive: true}), 50);
