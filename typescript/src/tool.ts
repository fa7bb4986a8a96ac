import { spawnSync, SpawnSyncReturns } from 'child_process';
import { existsSync, mkdirSync, readFileSync, writeFileSync } from 'fs';
import { basename, join } from 'path';

/** The version of this package, and its site. */
export const { version: VERSION, homepage: SITE } = require('../package.json');
const PACKAGE = `constructs-optim[cli]==${VERSION}`;
/** An environment variable that names the command. */
const VARIABLE = 'CONSTRUCTS_OPTIM';
// Where the tool reads and records containers: beside cdk.json, as it runs in the folder of the app.
const LOCK_FILE = 'optim.lock.json';
// uvx may have to fetch Python and the tool first.
const MOST_MINUTES = 10;
/** Of what a program has printed, in an error. */
const MOST_CHARACTERS = 20_000;
// What the CDK CLI and jsii tell the app that they run, and not the programs that this one runs.
const OF_THE_APP = [
  'CDK_CONTEXT_JSON', 'CDK_DEFAULT_ACCOUNT', 'CDK_DEFAULT_REGION', 'CONTEXT_OVERFLOW_LOCATION_ENV', 'JSII_AGENT', 'JSII_RUNTIME',
];

/** A file that declares endpoints: its path, or its content. */
export interface File {
  readonly path?: string;
  readonly content?: string;
  /** The command that synthesizes the file. */
  readonly command?: string[];
  /** Further options of the tool. */
  readonly options: string[];
}

/** What the tool has written. */
export interface Written {
  /** The text of the template. */
  readonly template: string;
  /** The paths of the files of code, by the template's parameters for their keys. */
  readonly code: Record<string, string>;
  /** The version of the tool. */
  readonly version?: string;
  /** What it warns of. */
  readonly warnings: string[];
}

// The tool takes seconds, and tests and stages synthesize what they have before: what it wrote, by all that it reads.
const before = new Map<string, { written: Written; files: Record<string, Buffer> }>();

/** Write the template of a file and its code into a folder. */
export function synthesize(file: File, folder: string): Written {
  const found = before.get(keyOf(file));
  if (found !== undefined) {
    mkdirSync(folder, { recursive: true });
    Object.entries(found.files).forEach(([name, content]) => writeFileSync(join(folder, name), content));
    const code = Object.entries(found.written.code).map(([parameter, path]) => [parameter, join(folder, basename(path))]);
    return { ...found.written, code: Object.fromEntries(code) };
  }
  const { stdout, stderr } = run(file, folder);
  const manifest = manifestIn(stdout);
  const { version, template } = manifest;
  const warnings = (manifest.warnings ?? '').split('\n').filter((line) => line !== '');
  const code = Object.fromEntries(Object.entries(manifest).filter(([name]) => name.endsWith('Key')));
  process.stderr.write(stderr);
  const files = Object.fromEntries([template, ...Object.values<string>(code)].map((path) => [basename(path), readFileSync(path)]));
  const text = files[basename(template)].toString('utf-8');
  const written = { template: text, code, version, warnings };
  // It may have recorded containers in the lock file.
  before.set(keyOf(file), { written, files });
  return written;
}

/** What the tool says that it has written, in the last line: what wraps it may print as well. */
function manifestIn(stdout: string): Record<string, string> {
  const line = stdout.trimEnd().split('\n').at(-1)!;
  try {
    const manifest = JSON.parse(line);
    if (typeof manifest.template === 'string') {
      return manifest;
    }
  } catch { /* It is no JSON, as below. */ }
  throw new Error(`The command printed no list of what it has written, but ${line.slice(0, 200)}: is it constructs-optim ${VERSION}?`);
}

function keyOf({ path, ...file }: File): string {
  const read = [path, LOCK_FILE].map((each) => each !== undefined && existsSync(each) ? readFileSync(each, 'utf-8') : undefined);
  return JSON.stringify([path, file, read, process.cwd(), process.env[VARIABLE], process.env.PATH]);
}

/** Run the first of the programs that is there. */
function run(file: File, folder: string): SpawnSyncReturns<string> {
  const named = file.command ?? words(process.env[VARIABLE] || undefined);
  const last = ['synth', file.path ?? '-', '--format', 'cloudformation', '--json', '--output', folder, ...file.options];
  const tried: string[] = [];
  for (const [program, ...first] of named === undefined ? known() : [named]) {
    const done = spawnSync(program, [...first, ...last], {
      encoding: 'utf-8',
      env: environment(),
      input: file.content ?? '',
      maxBuffer: 1 << 26,
      timeout: MOST_MINUTES * 60_000,
    });
    const command = [program, ...first].join(' ');
    const { code } = (done.error ?? {}) as NodeJS.ErrnoException;
    // A program that ends before it has read its input breaks the pipe, and what matters is how it ended.
    const ended = code === undefined || (code === 'EPIPE' && done.status !== null);
    if (ended && done.status === 0) {
      return done;
    }
    // A shell says 127 where there is no such command (POSIX), and so do the shims of version managers.
    const isMissing = code === 'ENOENT' || (ended && done.status === 127);
    if (!isMissing || named !== undefined) {
      const printed = `${done.stderr || done.stdout || ''}`.trimEnd().slice(-MOST_CHARACTERS);
      const where = file.command === undefined ? `the environment variable ${VARIABLE}` : 'the prop command';
      const how = isMissing ? `was not found, and ${where} names it` : howEnded(done, code, printed);
      throw new Error(`${command} ${how}${printed && `:\n${printed}`}`);
    }
    tried.push(`${command} (${code ?? `status ${done.status}`})`);
  }
  throw new Error(
    `The endpoint is synthesized by constructs-optim, a Python program, and none was found. Tried: ${tried.join(', ')}. `
    + `Install uv (https://docs.astral.sh/uv/), which fetches it when it is needed; or pip install "${PACKAGE}", which puts `
    + `it on the PATH; or name the command in the environment variable ${VARIABLE}.`,
  );
}

function howEnded(done: SpawnSyncReturns<string>, code: string | undefined, printed: string): string {
  if (code === 'ETIMEDOUT') {
    return `took longer than ${MOST_MINUTES} minutes, and was ended`;
  }
  if (code !== undefined && code !== 'EPIPE') {
    return `could not be run (${code})`;
  }
  if (done.signal !== null) {
    return `was ended by ${done.signal}`;
  }
  // So do usage errors end, which are no finding about the declaration.
  return done.status === 2 && !/^Usage: /m.test(printed) ? 'refuses the declaration' : `failed with status ${done.status}`;
}

function known(): string[][] {
  return [
    ['constructs-optim'],
    ['uvx', '--from', PACKAGE, 'constructs-optim'],
    ['pipx', 'run', '--spec', PACKAGE, 'constructs-optim'],
  ];
}

function words(command: string | undefined): string[] | undefined {
  // A path may have spaces.
  return command && existsSync(command) ? [command] : command?.trim().split(/\s+/);
}

function environment(): NodeJS.ProcessEnv {
  const inherited = Object.entries(process.env).filter(([name]) => !OF_THE_APP.includes(name));
  return {
    // The CDK of Python runs in this Node.
    JSII_NODE: process.execPath,
    ...Object.fromEntries(inherited),
    // The app validates the resources that it includes, which takes seconds.
    CDK_VALIDATION: 'false',
    // What it prints is shown as an error's message.
    COLUMNS: '160',
    NO_COLOR: '1',
  };
}
