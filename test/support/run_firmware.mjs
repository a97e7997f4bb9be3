// The firmware under MicroPython's WebAssembly port, as at the start of a board: node run_firmware.mjs FIRMWARE BOARD PLAN
// Its serial line is standard output; errors go to standard error.
import fs from "node:fs";
import path from "node:path";
import { pathToFileURL } from "node:url";

const [firmware, board, plan] = process.argv.slice(2);
const port = path.join(firmware, "node_modules/@micropython/micropython-webassembly-pyscript/micropython.mjs");
const { loadMicroPython } = await import(pathToFileURL(path.resolve(port)));

const line = [];
function send([byte]) {
    line.push(byte);
    if (byte !== 0) return;
    // A pseudo-terminal takes what it has room for.
    let rest = Uint8Array.from(line.splice(0));
    while (rest.length) rest = rest.subarray(fs.writeSync(1, rest));
}

const micropython = await loadMicroPython({ heapsize: 64 * 1024, linebuffer: false, stdout: send });
for (const name of fs.readdirSync(firmware).filter((name) => name.endsWith(".py"))) {
    micropython.FS.writeFile(`/${name}`, fs.readFileSync(path.join(firmware, name)));
}
micropython.FS.writeFile("/machine.py", fs.readFileSync(board));
try {
    micropython.runPython(`
import sys
sys.path.insert(0, "/")
import machine, settings
machine.PLAN.update(${plan})
settings.PAUSE_MS = 0
exec(open("/main.py").read())
`);
} catch (error) {
    if (error.type !== "SystemExit") {
        console.error(error.message);
        process.exitCode = 1;
    }
}
