import { readFileSync, writeFileSync } from 'fs';
import { join } from 'path';
import { Annotations, aws_s3_assets, CfnResource, cloudformation_include, Stack, Stage } from 'aws-cdk-lib';
import { Construct } from 'constructs';
import { synthesize } from './tool';

/** A file that declares endpoints: its path, or its content. */
export interface Source {
  readonly path?: string;
  readonly content?: string;
  /** The id of the endpoint that is meant. Default: the only one. */
  readonly endpoint?: string;
  /** The values of the file's parameters. */
  readonly parameters?: Record<string, any>;
  /** The command that synthesizes the file. */
  readonly command?: string;
}

/** The path of a construct in its stack as one id. */
export function idInStack(scope: Construct, id: string): string {
  const scopes = scope.node.scopes;
  const ids = scopes.slice(scopes.indexOf(Stack.of(scope)) + 1).map((each) => each.node.id);
  return [...ids, id].join('').replace(/[^A-Za-z0-9]/g, '');
}

/** The template of a file, included in a stack under logical ids that begin with the path of the construct in it. */
export class IncludedTemplate {
  private readonly outputs: Record<string, { Value: any }>;
  private readonly include: cloudformation_include.CfnInclude;
  /** What the ids of the endpoint's outputs begin with. */
  private readonly prefix: string;

  /** Have the file's template made, and include it below a construct. */
  constructor(scope: Construct, source: Source) {
    const prefix = idInStack(scope.node.scope!, scope.node.id);
    const folder = join(Stage.of(scope)!.assetOutdir, `constructs-optim.${Stack.of(scope).artifactId}.${prefix}`);
    const { paths, warnings } = synthesize(source, folder);
    for (const warning of warnings) {
      Annotations.of(scope).addWarningV2('constructs-optim:Synth', warning);
    }
    const { template: path, ...code } = paths;
    const original = JSON.parse(readFileSync(path, 'utf-8'));
    const template = renamed(original, prefix);
    this.prefix = prefixed(endpointOf(original, source.endpoint), prefix);
    this.outputs = template.Outputs;
    const templateFile = join(folder, 'included.json');
    writeFileSync(templateFile, JSON.stringify(template));
    const parameters = { ...source.parameters };
    for (const [parameter, file] of Object.entries(code)) {
      const asset = new aws_s3_assets.Asset(scope, parameter, { path: file });
      parameters[parameter] = asset.s3ObjectKey;
      parameters.CodeBucket = asset.s3BucketName;
    }
    this.include = new cloudformation_include.CfnInclude(scope, 'Template', { parameters, templateFile });
  }

  /** The value of an output of the endpoint (a token); undefined where it has none. */
  public output(name: string): string | undefined {
    return `${this.prefix}${name}` in this.outputs ? this.include.getOutput(`${this.prefix}${name}`).value : undefined;
  }

  /** The resources that an output refers to. */
  public resourcesIn(name: string): CfnResource[] {
    const text = JSON.stringify(this.outputs[`${this.prefix}${name}`]?.Value ?? '');
    return [...text.matchAll(/"(?:Ref":|Fn::GetAtt":\[)"(\w+)"/g)].map(([, id]) => this.include.getResource(id));
  }

  /** The statements of the policy document that an output has. */
  public statementsIn(name: string): { actions: string[]; isRestricted: boolean }[] {
    // Its text has ARNs that the deployment knows.
    const parts: any[] = this.outputs[`${this.prefix}${name}`]?.Value['Fn::Join'][1] ?? ['{"Statement":[]}'];
    const policy = JSON.parse(parts.map((part) => (typeof part === 'string' ? part : 'arn')).join(''));
    return policy.Statement.map((each: any) => ({ actions: each.Action, isRestricted: each.Resource !== '*' }));
  }
}

/** The id of the endpoint that is meant. */
function endpointOf(template: any, given?: string): string {
  const ids = Object.keys(template.Outputs ?? {}).map((key) => /^(.+)EndpointArn$/.exec(key)?.[1]).filter((id) => id !== undefined);
  const id = given === undefined && ids.length === 1 ? ids[0] : given?.replace(/[^A-Za-z0-9]/g, '');
  if (id === undefined || !ids.includes(id)) {
    throw new Error(`endpoint is ${given}, and the file declares ${ids.join(', ') || 'no endpoint'}: name one of them`);
  }
  return id;
}

function prefixed(id: string, prefix: string): string {
  return id.startsWith(prefix) ? id : `${prefix}${id}`;
}

/**
 * The template with ids that begin with `prefix`, also where text has them: in queries of dashboards, and where handlers
 * look resources up. So have the log groups whose names are those of the stack and of what is there once in it.
 */
function renamed(template: any, prefix: string): any {
  const { Parameters, Outputs, ...sections } = template;
  const ids = [sections.Resources, sections.Mappings, sections.Conditions].flatMap((section) => Object.keys(section ?? {}));
  const known = new RegExp(`\\b(?:${ids.join('|')})\\b`, 'g');
  const rename = (value: any) => JSON.parse(JSON.stringify(value).replace(known, (id) => prefixed(id, prefix)));
  const renamed = rename(sections);
  for (const { Type, Properties } of Object.values<any>(renamed.Resources)) {
    if (Type === 'AWS::Logs::LogGroup' && typeof Properties.LogGroupName === 'string') {
      Properties.LogGroupName += `-${prefix}`;
    }
  }
  const outputs = Object.entries(rename(Outputs)).map(([id, output]) => [prefixed(id, prefix), output]);
  return { ...renamed, Outputs: Object.fromEntries(outputs), Parameters };
}
