import assert from 'node:assert/strict';
import { spawn, spawnSync } from 'node:child_process';
import type { ChildProcess } from 'node:child_process';
import { mkdtempSync, readFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { createInterface } from 'node:readline';
import { after, before, test } from 'node:test';

const CDK = join(import.meta.dirname, '..', '..', 'node_modules', '.bin', 'cdk');
const APP = `node ${join(import.meta.dirname, 'app.mts')}`;
const environment: NodeJS.ProcessEnv = { ...process.env };
let cloud: ChildProcess;
let folder: string;

before(async () => {
  folder = mkdtempSync(join(tmpdir(), 'deployment-'));
  const options = { env: { ...process.env, PYTHONUNBUFFERED: '1' }, stdio: ['ignore', 'pipe', 'ignore'] } as const;
  cloud = spawn('constructs-optim', ['local', 'start'], options);
  for await (const line of createInterface(cloud.stdout!)) {
    const [, name, value] = /^export (\w+)=(.*)$/.exec(line) ?? [];
    environment[name ?? ''] = value;
    if (name === 'CDK_DISABLE_VERSION_CHECK') {
      break;
    }
  }
  cdk('synth', APP, '--quiet', '--output', assembly());
  cdk('bootstrap', assembly());
}, { timeout: 120_000 });

after(() => cloud.kill());

function assembly(): string {
  return join(folder, 'cdk.out');
}

function cdk(command: string, app: string, ...more: string[]): string {
  const options = { cwd: folder, env: environment, encoding: 'utf-8', timeout: 280_000 } as const;
  const done = spawnSync(CDK, [command, '--app', app, ...more], options);
  assert.equal(done.status, 0, `${done.stdout}${done.stderr}`);
  return `${done.stdout}${done.stderr}`;
}

test('an app deploys an endpoint of props and one of a file, a second time without a change, and destroys them', () => {
  const outputs = join(folder, 'outputs.json');
  cdk('deploy', assembly(), '--require-approval', 'never', '--outputs-file', outputs);
  const found = JSON.parse(readFileSync(outputs, 'utf-8')).TypeScript;
  assert.match(found.Name, /^typescript-chat-[0-9a-f]{8}$/);
  assert.match(found.Url, new RegExp(`/endpoints/${found.Name}/inference-components/.*/openai/v1$`));
  assert.match(found.SearchName, /^typescript-search-documents-[0-9a-f]{8}$/);
  assert.equal(found.Artifacts, found.SearchArtifacts, 'the same recipe has the same artifact');
  const { Resources } = JSON.parse(readFileSync(join(assembly(), 'TypeScript.template.json'), 'utf-8'));
  const jobs = Object.values<any>(Resources).filter(({ Type }) => Type === 'Custom::OptimizationJob');
  assert.deepEqual(jobs.map((job) => job.Properties.Tags), [[{ Key: 'team', Value: 'nlp' }], [{ Key: 'team', Value: 'nlp' }]]);
  const key = { 'Fn::GetAtt': [Object.keys(Resources).find((id) => Resources[id].Type === 'AWS::KMS::Key'), 'Arn'] };
  const ofRole = Object.values<any>(Resources).filter(({ Type, Properties }) => Type === 'AWS::IAM::Policy'
    && JSON.stringify(Properties.Roles) === JSON.stringify([{ Ref: Object.keys(Resources).find((id) => /^Role[0-9A-F]{8}$/.test(id)) }]));
  const statements = ofRole.flatMap((policy) => policy.Properties.PolicyDocument.Statement);
  assert.ok(statements.some(({ Action, Resource }) => `${Action}`.includes('kms:') && JSON.stringify(Resource) === JSON.stringify(key)));
  assert.match(readFileSync(join(folder, 'optim.lock.json'), 'utf-8'), /vllm/, 'the containers of the app stay as they are');
  assert.match(cdk('diff', APP, '--output', join(folder, 'again')), /There were no differences/);
  cdk('destroy', assembly(), '--force');
});
