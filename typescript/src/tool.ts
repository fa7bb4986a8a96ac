import { spawnSync } from 'child_process';
import { existsSync } from 'fs';

const { version: VERSION } = require('../package.json');
const PACKAGE = `constructs-optim[cli]==${VERSION}`;
const WARNING = 'warning: ';
/** An environment variable that names the command. */
const VARIABLE = 'CONSTRUCTS_OPTIM';
// What the CDK CLI and jsii tell the app that they run, and not the programs that this one runs.
const OF_THE_APP = [
  'CDK_CONTEXT_JSON', 'CDK_DEFAULT_ACCOUNT', 'CDK_DEFAULT_REGION', 'CONTEXT_OVERFLOW_LOCATION_ENV', 'JSII_AGENT', 'JSII_RUNTIME',
];

/** What the tool has written. */
export interface Written {
  /** The paths of the template (`template`), and of each file of code by the template's parameter for its key. */
  readonly paths: Record<string, string>;
  /** What it warns of. */
  readonly warnings: string[];
}

/** Write the template of a file, which is named by its path or given by its content, and its code into a folder. */
export function synthesize(file: { path?: string; content?: string; command?: string }, folder: string): Written {
  const given = file.command ?? process.env[VARIABLE];
  const tried: string[] = [];
  for (const [program, ...before] of given ? [words(given)] : known()) {
    const last = ['synth', file.path ?? '-', '--format', 'cloudformation', '--json', '--output', folder];
    const done = spawnSync(program, [...before, ...last], {
      encoding: 'utf-8',
      env: environment(),
      input: file.content ?? '',
      maxBuffer: 1 << 26,
    });
    if (done.error === undefined && done.status === 0) {
      const lines = done.stderr.split('\n').filter((line) => line !== '');
      const [warnings, others] = [true, false].map((wanted) => lines.filter((line) => line.startsWith(WARNING) === wanted));
      process.stderr.write(others.map((line) => `${line}\n`).join(''));
      return { paths: JSON.parse(done.stdout), warnings: warnings.map((line) => line.slice(WARNING.length)) };
    }
    if (done.error === undefined) {
      throw new Error(`${[program, ...before].join(' ')} refuses the declaration:\n${done.stderr || done.stdout}`);
    }
    tried.push(`${[program, ...before].join(' ')} (${(done.error as NodeJS.ErrnoException).code})`);
  }
  throw new Error(
    `The endpoint is synthesized by constructs-optim, a Python program, and none was found. Tried: ${tried.join(', ')}. `
    + `Install uv (https://docs.astral.sh/uv/), which fetches it when it is needed; or pip install "${PACKAGE}", which puts `
    + `it on the PATH; or name the command in the environment variable ${VARIABLE}.`,
  );
}

function known(): string[][] {
  return [
    ['constructs-optim'],
    ['uvx', '--from', PACKAGE, 'constructs-optim'],
    ['pipx', 'run', '--spec', PACKAGE, 'constructs-optim'],
  ];
}

function words(command: string): string[] {
  // A path may have spaces.
  return existsSync(command) ? [command] : command.trim().split(/\s+/);
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
