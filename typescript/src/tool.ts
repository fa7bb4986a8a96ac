import { spawnSync, SpawnSyncReturns } from 'child_process';
import { existsSync, mkdirSync, readFileSync, statSync, writeFileSync } from 'fs';
import { basename, join } from 'path';

/** The version of this package, and its site. */
export const { version: VERSION, homepage: SITE } = require('../package.json');
const PACKAGE = `constructs-optim[cli]==${VERSION}`;
/** An environment variable that names the command. */
const VARIABLE = 'CONSTRUCTS_OPTIM';
// The file in which the tool reads and records containers, beside cdk.json, because it runs in the app's folder.
const LOCK_FILE = 'optim.lock.json';
// uvx may have to download Python and the tool first.
const MOST_MINUTES = 10;
/** The most of a program's output in an error. */
const MOST_CHARACTERS = 20_000;
// Variables that the CDK CLI and jsii set for the app, but not for the programs that it runs.
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

/** The tool's output. */
export interface Written {
  /** The text of the template. */
  readonly template: string;
  /** The paths of the code files, by the template's parameters for their keys. */
  readonly code: Record<string, string>;
  /** The version of the tool. */
  readonly version?: string;
  /** The tool's warnings. */
  readonly warnings: string[];
}

// A cache of outputs by all inputs, because the tool takes seconds, and tests and stages repeat syntheses.
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
  // The key is computed again, because the tool may have recorded containers in the lock file.
  before.set(keyOf(file), { written, files });
  return written;
}

/** Return the tool's list of outputs from the last line. Programs that wrap the tool may print other lines. */
function manifestIn(stdout: string): Record<string, string> {
  const line = stdout.trimEnd().split('\n').at(-1)!;
  try {
    const manifest = JSON.parse(line);
    if (typeof manifest.template === 'string') {
      return manifest;
    }
  } catch { /* The line is not JSON: see the error below. */ }
  throw new Error(`The command printed no list of outputs, but ${line.slice(0, 200)}: is it constructs-optim ${VERSION}?`);
}

function keyOf({ path, ...file }: File): string {
  const read = [path, LOCK_FILE].map((each) => {
    const isFile = each !== undefined && statSync(each, { throwIfNoEntry: false })?.isFile();
    return isFile ? readFileSync(each, 'utf-8') : undefined;
  });
  return JSON.stringify([path, file, read, process.cwd(), process.env[VARIABLE], process.env.PATH]);
}

/** Run the first program that exists. */
function run(file: File, folder: string): SpawnSyncReturns<string> {
  const ofProp = file.command?.length ? file.command : undefined;
  const named = ofProp ?? words(process.env[VARIABLE]?.trim() || undefined);
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
    // A program that ends before it reads its input breaks the pipe, so its exit status decides.
    const ended = code === undefined || (code === 'EPIPE' && done.status !== null);
    if (ended && done.status === 0) {
      return done;
    }
    // A shell returns 127 for a missing command (POSIX), and so do the shims of version managers.
    const isMissing = code === 'ENOENT' || (ended && done.status === 127);
    if (!isMissing || named !== undefined) {
      const printed = withoutUsage(`${done.stderr || done.stdout || ''}`.trimEnd().slice(-MOST_CHARACTERS));
      const where = ofProp === undefined ? `the environment variable ${VARIABLE}` : 'the prop command';
      const how = isMissing ? `was not found, and ${where} names it` : howEnded(done, code, printed);
      throw new Error(`${command} ${how}${printed && `:\n${printed}`}`);
    }
    tried.push(`${command} (${code ?? `status ${done.status}`})`);
  }
  throw new Error(
    `constructs-optim, the Python program that synthesizes the endpoint, was not found. Tried: ${tried.join(', ')}. `
    + `Install uv (https://docs.astral.sh/uv/), which downloads it when needed; or pip install "${PACKAGE}", which puts `
    + `it on the PATH; or set the environment variable ${VARIABLE} to its command.`,
  );
}

/**
 * Return what the tool prints about an option that contradicts the file without its usage, because the options are those of
 * the construct: they have the environment and the name of the stack.
 */
function withoutUsage(printed: string): string {
  const [, finding] = /^Usage: [^]*\nError: Invalid value: ([^]*)$/.exec(printed) ?? [];
  return finding?.replace(/--(account|region)\b/g, "the stack's $1") ?? printed;
}

function howEnded(done: SpawnSyncReturns<string>, code: string | undefined, printed: string): string {
  if (code === 'ETIMEDOUT') {
    return `was stopped after ${MOST_MINUTES} minutes`;
  }
  if (code !== undefined && code !== 'EPIPE') {
    return `could not be run (${code})`;
  }
  if (done.signal !== null) {
    return `was ended by ${done.signal}`;
  }
  // Usage errors also have status 2, but are not findings about the declaration.
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
    // Python's CDK runs in this Node.
    JSII_NODE: process.execPath,
    ...Object.fromEntries(inherited),
    // The app validates the resources that it includes, which takes seconds.
    CDK_VALIDATION: 'false',
    // An error's message shows the output.
    COLUMNS: '160',
    NO_COLOR: '1',
  };
}
