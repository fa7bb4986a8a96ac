import { mkdirSync, readdirSync, readFileSync, writeFileSync } from 'fs';
import { basename, join } from 'path';
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

/** The ids of a construct and of what it is in, below its stack. */
export function pathInStack(scope: Construct, id: string): string[] {
  const scopes = scope.node.scopes;
  const ids = scopes.slice(scopes.indexOf(Stack.of(scope)) + 1).map((each) => each.node.id);
  return [...ids, id].map((each) => each.replace(/[^A-Za-z0-9]/g, '')).filter((each) => each !== '');
}

/** The template of a file, included in a stack under logical ids that begin with the path of the construct. */
export class IncludedTemplate {
  /** Have the file's template made, and include it below a construct. */
  public static synthesize(scope: Construct, source: Source): IncludedTemplate {
    const prefix = pathInStack(scope.node.scope!, scope.node.id).join('');
    const folder = join(Stage.of(scope)!.assetOutdir, `constructs-optim.${Stack.of(scope).artifactId}.${prefix}`);
    mkdirSync(folder, { recursive: true });
    const said = synthesize(source, folder, source.command);
    if (said !== '') {
      Annotations.of(scope).addWarningV2('constructs-optim:Synth', said);
    }
    return new IncludedTemplate(scope, folder, prefix, source.parameters ?? {});
  }

  private readonly template: any;
  private readonly include: cloudformation_include.CfnInclude;

  private constructor(scope: Construct, folder: string, private readonly prefix: string, parameters: Record<string, any>) {
    const [name] = readdirSync(folder).filter((each) => each.endsWith('.template.json'));
    this.template = renamed(JSON.parse(readFileSync(join(folder, name), 'utf-8')), prefix);
    const templateFile = join(folder, `included.json`);
    writeFileSync(templateFile, JSON.stringify(this.template));
    this.include = new cloudformation_include.CfnInclude(scope, 'Template', {
      parameters: { ...this.code(scope, folder), ...parameters },
      templateFile,
    });
  }

  /** The id of an endpoint in the file. */
  public endpointId(given?: string): string {
    const ids = Object.keys(this.template.Outputs).map((key) => key.slice(this.prefix.length))
      .filter((key) => /.EndpointArn$/.test(key)).map((key) => key.replace(/EndpointArn$/, ''));
    const id = given === undefined && ids.length === 1 ? ids[0] : given?.replace(/[^A-Za-z0-9]/g, '');
    if (id === undefined || !ids.includes(id)) {
      throw new Error(`endpoint is ${given}, and the file declares ${ids.join(', ') || 'no endpoint'}: name one of them`);
    }
    return id;
  }

  /** The value of an output of an endpoint (a token); undefined where it has none. */
  public output(endpoint: string, name: string): string | undefined {
    const id = this.outputId(endpoint, name);
    return id in this.template.Outputs ? this.include.getOutput(id).value : undefined;
  }

  /** The resources that an output refers to. */
  public resourcesIn(endpoint: string, name: string): CfnResource[] {
    const text = JSON.stringify(this.template.Outputs[this.outputId(endpoint, name)]?.Value ?? '');
    return [...text.matchAll(/"(?:Ref":|Fn::GetAtt":\[)"(\w+)"/g)].map(([, id]) => this.include.getResource(id));
  }

  /** The policy document that an output has. */
  public policyIn(endpoint: string, name: string): any {
    const value = this.template.Outputs[this.outputId(endpoint, name)]?.Value;
    return value;
  }

  private outputId(endpoint: string, name: string): string {
    return `${this.prefix}${endpoint}${name}`;
  }

  private code(scope: Construct, folder: string): Record<string, string> {
    const parameters: Record<string, string> = {};
    for (const [parameter, { Default: key }] of Object.entries<any>(this.template.Parameters ?? {})) {
      const file = join(folder, basename(String(key ?? '')));
      if (parameter.endsWith('Key') && readdirSync(folder).includes(basename(file))) {
        const asset = new aws_s3_assets.Asset(scope, parameter, { path: file });
        parameters[parameter] = asset.s3ObjectKey;
        parameters.CodeBucket = asset.s3BucketName;
      }
    }
    return parameters;
  }
}

/** The template with other ids, also where text has them: in queries of dashboards, and where handlers look them up. */
function renamed(template: any, prefix: string): any {
  const { Parameters, Outputs, ...sections } = template;
  const ids = [sections.Resources, sections.Mappings, sections.Conditions].flatMap((section) => Object.keys(section ?? {}));
  const known = new RegExp(`\\b(?:${ids.join('|')})\\b`, 'g');
  const rename = (value: any) => JSON.parse(JSON.stringify(value).replace(known, (id) => `${prefix}${id}`));
  const outputs = Object.entries(rename(Outputs ?? {})).map(([id, output]) => [`${prefix}${id}`, output]);
  return { ...rename(sections), Outputs: Object.fromEntries(outputs), Parameters };
}
