export * from './declaration';
export * from './optimized-endpoint';
